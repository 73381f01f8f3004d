"""The watchdog of the event loop: it measures processor time of a step, and names the task."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import trio

from gateway.handlers.context import Context
from gateway.server.logging.logs import Reports
from gateway.server.scheduling.loop_watchdog import LoopWatchdog
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.harness import handler, run, serving


class Recording(Reports):
    """Notes reports."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def report(self, event: str, /, **fields: Any) -> None:
        self.lines.append((event, fields))


class Machine:
    """The clocks of a machine: ``spend`` passes processor time, and wall time without it."""

    def __init__(self) -> None:
        self.wall_s = self.processor_s = 0.0

    def spend(self, processor_s: float, preempted_s: float = 0.0) -> None:
        self.processor_s += processor_s
        self.wall_s += processor_s + preempted_s

    def watchdog(self, reports: Reports) -> LoopWatchdog:
        return LoopWatchdog(reports, wall=lambda: self.wall_s, processor=lambda: self.processor_s)


def watched(step: Callable[[Machine], None]) -> tuple[LoopWatchdog, Recording]:
    """Run ``step`` between two checkpoints of a watched loop."""
    reports, machine = Recording(), Machine()
    watchdog = machine.watchdog(reports)

    async def main() -> None:
        await trio.lowlevel.checkpoint()
        step(machine)
        await trio.lowlevel.checkpoint()

    trio.run(main, instruments=[watchdog])
    return watchdog, reports


def test_long_step_is_reported_with_its_task() -> None:
    watchdog, reports = watched(lambda machine: machine.spend(0.08, preempted_s=0.1))
    ((event, fields),) = reports.lines
    assert event == "event loop held"
    assert fields["milliseconds"] == 80
    assert fields["task"].endswith("main")
    assert watchdog.measures.held == 1
    assert watchdog.measures.longest_s == watchdog.measures.held_s == pytest.approx(0.08)


@pytest.mark.parametrize("preempted_s", [0.0, 0.1])
def test_short_or_preempted_step_is_not_reported(preempted_s: float) -> None:
    watchdog, reports = watched(lambda machine: machine.spend(0.01, preempted_s))
    assert reports.lines == []
    assert watchdog.measures.held == 0


def test_time_before_the_watchdog_was_added_does_not_count() -> None:
    reports, machine = Recording(), Machine()
    watchdog = machine.watchdog(reports)
    machine.spend(0.08)

    async def main() -> None:
        trio.lowlevel.add_instrument(watchdog)
        await trio.lowlevel.checkpoint()

    trio.run(main)
    assert reports.lines == []


def test_request_that_holds_the_loop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # No other step of this server takes as long, on any machine.
    monkeypatch.setattr("gateway.server.scheduling.loop_watchdog.HELD_S", 1.0)
    told = []

    def handle(request: Any, context: Context) -> HeartbeatResponse:
        if request.generation_id:
            ends_at = time.thread_time() + 1.1
            # tidy: clock: it uses up processor time
            while time.thread_time() < ends_at:
                pass
        return HeartbeatResponse()

    async def main() -> None:
        async with serving(handler(handle)) as server, await server.connect() as client:
            monkeypatch.setattr(
                server.server_context.reports,
                "report",
                lambda event, *_, **fields: told.append((event, fields)),
            )
            await client.ask(1)
            assert told == []
            await client.ask(2, generation_id=1)
            await client.ask(3)
            assert server.server_context.watchdog.measures.held == 1

    run(main)
    (fields,) = [fields for event, fields in told if event == "event loop held"]
    assert (fields["api"], fields["version"], fields["correlation_id"], fields["client_id"]) == (
        "heartbeat",
        4,
        2,
        "test",
    )
    assert fields["principal"] == "User:ANONYMOUS"
    assert fields["connection"] == 1


def test_watchdog_is_removed_with_its_server() -> None:
    async def main() -> None:
        async with serving() as server:
            watchdog = server.server_context.watchdog
        with pytest.raises(KeyError):
            trio.lowlevel.remove_instrument(watchdog)

    run(main)
