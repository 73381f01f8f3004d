"""The raft driver: messages are held until their effects are durable, and failures stop the node.

Core and disk are scripted: these tests are about the order of effects, not about the decisions.
"""

from __future__ import annotations

import errno
import re
from typing import Any

import pytest
import trio
import trio.testing

from gateway.log.files.errors import DiskFailed, SyncFailed
from gateway.ports.services import SourceStopped
from gateway.quorum.effects import (
    Advance,
    ElectionState,
    InstallSnapshot,
    Persist,
    ShutDownComplete,
    Stop,
)
from gateway.quorum.events import (
    Answered,
    Durable,
    Installed,
    Requested,
    ShutDown,
    Tick,
)
from gateway.server.quorum import driver_policies
from tests.gateway.server.harness import run
from tests.gateway.server.scripted_raft import SNAPSHOT, Driven, append, driving, heartbeat, settled
from tests.gateway.server.upstream_peer import listening, polite
from tests.waiting import PATIENCE_S, until_async

# --- durability


def test_reply_is_held_until_its_effects_are_durable() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.gate.clear()
            driven.reply(1, Persist(1, ElectionState(1, voted_id=2), 1))
            driven.ask()
            await settled()
            assert driven.answers == [], "the disk has not said that it is done"
            driven.log.gate.set()
            await until_async(lambda: len(driven.answers) == 1)
            await until_async(lambda: driven.raft.of(Durable) == [Durable(1)])

    run(main)


def test_send_is_held_until_its_effects_are_durable() -> None:
    async def main() -> None:
        async with listening(polite) as peer, driving() as driven:
            driven.log.gate.clear()
            driven.raft.react = lambda event: (
                [append(1), heartbeat(peer.port, after=1)] if isinstance(event, Requested) else []
            )
            driven.ask()
            await settled()
            assert peer.seen == []
            driven.log.gate.set()
            await until_async(lambda: bool(driven.raft.of(Answered)))

    run(main)


def test_reply_is_held_while_only_earlier_effects_are_durable() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.gate.clear()
            driven.reply(1, append(1))
            driven.ask()
            await until_async(driven.log.busy.is_set)
            driven.reply(2, append(2))
            driven.ask()
            await settled()
            driven.log.stepwise = True
            driven.log.gate.set()
            await until_async(lambda: driven.raft.of(Durable) == [Durable(1)])
            await settled()
            assert len(driven.answers) == 1
            driven.log.gate.set()
            await until_async(lambda: driven.raft.of(Durable) == [Durable(1), Durable(2)])
            assert len(driven.answers) == 2

    run(main)


def test_reply_without_effects_is_sent_while_the_disk_is_busy() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.gate.clear()
            driven.reply(1, append(1))
            driven.ask()
            await until_async(driven.log.busy.is_set)
            driven.reply(0)
            for _ in range(1000):
                driven.ask()
            await until_async(lambda: len(driven.answers) == 1000)

    run(main)


def test_effects_that_gather_during_a_write_are_written_together() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.gate.clear()
            for token in (1, 2, 3, 4):
                driven.reply(token, append(token))
                driven.ask()
                await settled()
            assert driven.answers == []
            driven.log.gate.set()
            await until_async(lambda: len(driven.answers) == 4)
            assert driven.log.performed == [[append(1)], [append(2), append(3), append(4)]]
            await until_async(lambda: driven.raft.of(Durable) == [Durable(1), Durable(4)])

    run(main)


def test_installed_snapshot_is_reported_before_durable() -> None:
    async def main() -> None:
        async with driving() as driven:
            installed = Installed(SNAPSHOT, None, 1)
            driven.log.decision = [installed]
            driven.reply(3, InstallSnapshot(3, SNAPSHOT))
            driven.ask()
            await until_async(lambda: driven.raft.events[1:] == [installed, Durable(3)])

    run(main)


# --- failures


@pytest.mark.parametrize(
    "error",
    [
        DiskFailed("write", "a.log", OSError(errno.ENOSPC, "No space left on device"), "free some"),
        SyncFailed("sync", "a.log", OSError(errno.EIO, "Input/output error"), "look at the disk"),
    ],
)
def test_failed_disk_stops_the_node_and_acknowledges_nothing(error: Exception) -> None:
    driven: list[Driven] = []

    async def main() -> None:
        async with driving(driven.append) as one:
            one.log.gate.clear()
            one.log.fails = error
            one.reply(1, append(1))
            one.ask()
            await until_async(one.log.busy.is_set)
            one.log.gate.set()
            await trio.sleep_forever()

    with pytest.raises(SourceStopped, match=f"^{re.escape(str(error))}; restart the process"):
        run(main)
    assert driven[0].answers == []
    assert driven[0].raft.of(Durable) == []


def test_exception_in_the_log_stops_the_node_and_is_logged() -> None:
    driven: list[Driven] = []

    async def main() -> None:
        async with driving(driven.append) as one:
            one.log.fails = ValueError("a batch for offset 7")
            one.reply(1, append(1))
            one.ask()
            await trio.sleep_forever()

    with pytest.raises(
        SourceStopped,
        match=r"a bug of this server, at the log: .*a batch for offset 7.*; restart the process",
    ):
        run(main)
    assert driven[0].answers == []
    assert driven[0].reports.counts["log write failed"] == 1


@pytest.mark.parametrize("at", ["its start", "Requested"])
def test_exception_in_the_core_stops_the_node_and_is_logged(at: str) -> None:
    driven: list[Driven] = []

    def bug(*event: Any) -> list[Any]:
        raise AssertionError("more is durable than was given out")

    def prepare(one: Driven) -> None:
        driven.append(one)
        if at == "its start":
            one.raft.start = bug  # type: ignore[assignment,method-assign]
        else:
            one.raft.react = bug

    async def main() -> None:
        async with driving(prepare) as one:
            one.ask()
            await trio.sleep_forever()

    with pytest.raises(SourceStopped, match=f"a bug of this server, at {at}: .*more is durable"):
        run(main)
    assert driven[0].answers == []
    assert driven[0].reports.counts["quorum core failed"] == 1


def test_stop_effect_stops_the_node_with_its_reason() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.raft.react = lambda event: [
                Stop("the leader's log contradicts what is committed here")
            ]
            driven.ask()
            await trio.sleep_forever()

    with pytest.raises(
        SourceStopped, match=r"^the leader's log contradicts what is committed here$"
    ):
        run(main)


# --- time


def test_core_gets_a_tick_at_its_deadline_and_not_before() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    ticks: list[float] = []

    async def main() -> None:
        async with driving() as driven:

            def react(event: Any) -> list[Any]:
                if isinstance(event, Tick):
                    ticks.append(trio.current_time() - began)
                    driven.raft.deadline = (
                        began + 5 * (len(ticks) + 1) if len(ticks) < 3 else float("inf")
                    )
                return []

            began = trio.current_time()
            driven.raft.react = react
            driven.raft.deadline = began + 5
            driven.ask()
            await trio.sleep(3600)
            assert ticks == pytest.approx([5, 10, 15])
            assert len(driven.raft.events) == 4, "an hour without anything to do costs nothing"

    trio.run(main, clock=clock)


def test_high_watermark_is_stored_periodically() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)

    async def main() -> None:
        async with driving() as driven:
            driven.reply(0, Advance(7))
            driven.ask()
            await settled()
            assert (driven.log.committed, driven.log.remembered) == (7, 0)
            clock.autojump_threshold = float("inf")
            clock.jump(1.5)
            clock.rate = 1.0
            await until_async(lambda: driven.log.remembered == 7)

    trio.run(main, clock=clock)


def test_failure_to_store_the_high_watermark_stops_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_policies, "_REMEMBER_S", 0.01)

    async def main() -> None:
        async with driving() as driven:
            driven.log.fails = DiskFailed(
                "write", "recovery-point", OSError(errno.EIO, "Input/output error"), "look"
            )
            driven.log.commit(7)
            await trio.sleep_forever()

    with pytest.raises(
        SourceStopped,
        match="cannot write recovery-point: Input/output error; look; restart the process",
    ):
        run(main)


# --- shutdown


def test_shut_down_waits_for_the_hand_over() -> None:
    async def main() -> None:
        async with driving() as driven, trio.open_nursery() as nursery:
            over: list[float] = []

            async def shut_down() -> None:
                await driven.driver.shut_down(5)
                over.append(trio.current_time())

            nursery.start_soon(shut_down)
            await settled()
            assert (driven.raft.events, over) == ([ShutDown(5)], [])
            driven.reply(0, ShutDownComplete())
            driven.ask()
            await until_async(lambda: bool(over))
            assert len(driven.answers) == 1, "the node can still be asked"

    run(main)


def test_shut_down_returns_after_its_timeout() -> None:
    async def main() -> None:
        async with driving() as driven:
            with trio.fail_after(PATIENCE_S):
                await driven.driver.shut_down(0.05)

    run(main)


def test_shut_down_of_a_stopped_node_returns_at_once() -> None:
    driven: list[Driven] = []

    async def main() -> None:
        async with driving(driven.append):
            pass
        with trio.fail_after(PATIENCE_S):
            await driven[0].driver.shut_down(10 * PATIENCE_S)

    run(main)
