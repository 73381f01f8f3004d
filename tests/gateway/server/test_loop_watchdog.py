"""The watchdog of the event loop: it measures processor time of a step, and names the task."""

from __future__ import annotations

import time
from typing import Any

import pytest
import trio

from gateway.handlers.context import Context
from gateway.server.logs import Reports
from gateway.server.loop_watchdog import LoopWatchdog
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.harness import handler, run, serving


class Recording(Reports):
    """Notes reports."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def report(self, event: str, /, **fields: Any) -> None:
        self.lines.append((event, fields))


def busy(seconds: float) -> None:
    """Use up processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def watched(step: Any) -> tuple[LoopWatchdog, Recording]:
    """Run ``step`` between two checkpoints of a watched loop."""
    reports = Recording()
    watchdog = LoopWatchdog(reports)

    async def main() -> None:
        await trio.lowlevel.checkpoint()
        step()
        await trio.lowlevel.checkpoint()

    trio.run(main, instruments=[watchdog])
    return watchdog, reports


@pytest.mark.holds_event_loop(reason="the test does so itself")
def test_long_step_is_reported_with_its_task() -> None:
    watchdog, reports = watched(lambda: busy(0.08))
    ((event, fields),) = reports.lines
    assert event == "event loop held"
    assert 80 <= fields["milliseconds"] < 1000
    assert fields["task"].endswith("main")
    assert watchdog.measures.held == 1
    assert watchdog.measures.longest_s == watchdog.measures.held_s >= 0.08


@pytest.mark.parametrize("step", [lambda: busy(0.01), lambda: time.sleep(0.1)])
def test_short_or_preempted_step_is_not_reported(step: Any) -> None:
    watchdog, reports = watched(step)
    assert reports.lines == []
    assert watchdog.measures.held == 0


def test_time_before_the_watchdog_was_added_does_not_count() -> None:
    reports = Recording()
    watchdog = LoopWatchdog(reports)
    busy(0.08)

    async def main() -> None:
        trio.lowlevel.add_instrument(watchdog)
        await trio.lowlevel.checkpoint()

    trio.run(main)
    assert reports.lines == []


@pytest.mark.holds_event_loop(reason="the handler does so on purpose")
def test_request_that_holds_the_loop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def handle(request: Any, context: Context) -> HeartbeatResponse:
        if request.generation_id:
            busy(0.07)
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
