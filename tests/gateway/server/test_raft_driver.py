"""The driver of a node of the quorum: what leaves when, what is written together, and what ends the
node.

Core and disk are scripted: these tests are about the order in which things are done, whatever is
decided.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from gateway.address import Address
from gateway.handlers.context import PendingResponse
from gateway.log.errors import DiskFailed, SyncFailed
from gateway.ports import FileRecords, OffsetOutOfRange, SourceStopped
from gateway.quorum.effects import (
    AbandonSnapshot,
    Accepted,
    Advance,
    Append,
    BeginSnapshot,
    ElectionState,
    FailureKind,
    InstallSnapshot,
    LeaderChanged,
    Leading,
    LogRange,
    NotLeading,
    Persist,
    Refused,
    Report,
    Send,
    ShutDownComplete,
    SnapshotChunk,
    SnapshotRange,
    Stop,
)
from gateway.quorum.events import (
    Answered,
    Cancelled,
    Durable,
    Failed,
    Installed,
    Requested,
    Resign,
    ShutDown,
    Tick,
)
from gateway.quorum.requests import describe_quorum
from gateway.server import raft_driver
from gateway.snapshot_id import SnapshotId
from kwire.messages import fetch_response, fetch_snapshot_response
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.vote_response import VoteResponse
from kwire.protocol import ErrorCode
from tests.gateway.server.harness import run, until
from tests.gateway.server.scripted_raft import Driven, driving
from tests.gateway.server.upstream_peer import HEARTBEAT, listening, polite

SNAPSHOT = SnapshotId(10, 1)


def append(token: int) -> Append:
    return Append(token, token, b"batch")


def heartbeat(
    port: int, number: int = 1, *, after: int = 0, api_key: int = HEARTBEAT, timeout_s: float = 5
) -> Send:
    def request(version: int) -> HeartbeatRequest:
        return HeartbeatRequest(group_id="g", generation_id=7, member_id="m")

    return Send(number, 2, Address("127.0.0.1", port), api_key, range(5), timeout_s, request, after)


async def settled() -> None:
    """Everything has happened that can."""
    await trio.testing.wait_all_tasks_blocked()


# --- nothing leaves before it is true after a crash
# -------------------------------------------------------------------


def test_reply_is_held_until_its_effects_are_durable() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.gate.clear()
            driven.reply(1, Persist(1, ElectionState(1, voted_id=2), 1))
            driven.ask()
            await settled()
            assert driven.answers == [], "the disk has not said that it is done"
            driven.log.gate.set()
            await until(lambda: len(driven.answers) == 1)
            await until(lambda: driven.raft.of(Durable) == [Durable(1)])

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
            await until(lambda: bool(driven.raft.of(Answered)))

    run(main)


def test_reply_is_held_while_only_earlier_effects_are_durable() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.gate.clear()
            driven.reply(1, append(1))
            driven.ask()
            await until(driven.log.busy.is_set)
            driven.reply(2, append(2))
            driven.ask()
            await settled()
            driven.log.stepwise = True
            driven.log.gate.set()
            await until(lambda: driven.raft.of(Durable) == [Durable(1)])
            await settled()
            assert len(driven.answers) == 1
            driven.log.gate.set()
            await until(lambda: driven.raft.of(Durable) == [Durable(1), Durable(2)])
            assert len(driven.answers) == 2

    run(main)


def test_reply_without_effects_is_sent_while_the_disk_is_busy() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.gate.clear()
            driven.reply(1, append(1))
            driven.ask()
            await until(driven.log.busy.is_set)
            driven.reply(0)
            for _ in range(1000):
                driven.ask()
            await until(lambda: len(driven.answers) == 1000)

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
            await until(lambda: len(driven.answers) == 4)
            assert driven.log.performed == [[append(1)], [append(2), append(3), append(4)]]
            await until(lambda: driven.raft.of(Durable) == [Durable(1), Durable(4)])

    run(main)


def test_installed_snapshot_is_reported_before_durable() -> None:
    async def main() -> None:
        async with driving() as driven:
            installed = Installed(SNAPSHOT, None, 1)
            driven.log.decision = [installed]
            driven.reply(3, InstallSnapshot(3, SNAPSHOT))
            driven.ask()
            await until(lambda: driven.raft.events[1:] == [installed, Durable(3)])

    run(main)


# --- what ends the node
# -----------------------------------------------------------------------------------------------


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
            await until(one.log.busy.is_set)
            one.log.gate.set()
            await trio.sleep_forever()

    with pytest.raises(SourceStopped, match=f"^{re.escape(str(error))}; start again"):
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
        match=r"a bug of this server, at the log: .*a batch for offset 7.*; start again",
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


# --- who asks
# ---------------------------------------------------------------------------------------------------------


def test_cancelled_request_is_reported_to_the_core_and_reads_nothing() -> None:
    async def main() -> None:
        async with driving() as driven:
            read: list[Any] = []
            driven.log.range = read.append  # type: ignore[assignment]
            driven.log.gate.clear()
            driven.reply(1, append(1), answer=_fetched(), read=LogRange(0, 1, 100))
            pending = PendingResponse()
            driven.driver.ask(VoteResponse(), 2, "CONTROLLER", pending)
            await until(driven.log.busy.is_set)
            pending.cancel()
            driven.log.gate.set()
            await until(lambda: bool(driven.raft.of(Durable)))
            [asked] = driven.raft.of(Requested)
            assert driven.raft.of(Cancelled) == [Cancelled(asked.number)]
            assert (read, pending.done) == ([], False)

    run(main)


def test_answered_request_is_not_reported_as_cancelled() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.reply()
            pending = PendingResponse()
            driven.driver.ask(VoteResponse(), 2, "CONTROLLER", pending)
            await until(lambda: pending.done)
            pending.cancel()
            await settled()
            assert driven.raft.of(Cancelled) == []

    run(main)


def test_requested_event_has_listener_version_and_a_unique_number() -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.driver.ask(VoteResponse(), 1, "CONTROLLER", PendingResponse())
            driven.driver.ask(VoteResponse(), 2, "OTHER", PendingResponse())
            await settled()
            first, second = driven.raft.of(Requested)
            assert (first.version, first.listener, second.version, second.listener) == (
                1,
                "CONTROLLER",
                2,
                "OTHER",
            )
            assert first.number != second.number

    run(main)


# --- bytes of log and snapshots
# ---------------------------------------------------------------------------------------


def _fetched() -> FetchResponse:
    partition = fetch_response.PartitionData(records=b"")
    return FetchResponse(responses=[fetch_response.FetchableTopicResponse(partitions=[partition])])


def _snapshot() -> FetchSnapshotResponse:
    partition = fetch_snapshot_response.PartitionSnapshot(unaligned_records=b"")
    return FetchSnapshotResponse(
        topics=[fetch_snapshot_response.TopicSnapshot(partitions=[partition])]
    )


async def _answered(driven: Driven, answer: Any, read: Any) -> Any:
    driven.reply(answer=answer, read=read)
    driven.ask()
    await until(lambda: bool(driven.answers))
    found: Any = driven.answers[0]
    return (
        found.responses[0].partitions[0]
        if isinstance(answer, FetchResponse)
        else found.topics[0].partitions[0]
    )


def test_records_are_filled_into_the_reply() -> None:
    async def main() -> None:
        async with driving() as driven:
            partition = await _answered(driven, _fetched(), LogRange(0, 1, 100))
            assert isinstance(partition.records, FileRecords)
            assert partition.records.read.chunks == (b"records",)

    run(main)


def test_reply_after_cleaning_has_no_records() -> None:
    """The log begins later than the core knows until it hears of the cleaning."""

    def gone(wanted: Any) -> Any:
        raise OffsetOutOfRange("0 is not within 10 to 20")

    async def main() -> None:
        async with driving() as driven:
            driven.log.range = gone
            partition = await _answered(driven, _fetched(), LogRange(0, 20, 100))
            assert (partition.records, partition.error_code) == (b"", 0)

    run(main)


def test_snapshot_bytes_and_size_are_filled_into_the_reply() -> None:
    async def main() -> None:
        async with driving() as driven:
            partition = await _answered(driven, _snapshot(), SnapshotRange(SNAPSHOT, 0, 5))
            assert (partition.size, partition.unaligned_records, partition.error_code) == (
                100,
                b"bytes",
                0,
            )

    run(main)


@pytest.mark.parametrize("position", [100, 101, 2**63 - 1])
def test_position_behind_the_snapshot_is_out_of_range(position: int) -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.log.snapshot = lambda wanted: (100, b"")
            partition = await _answered(driven, _snapshot(), SnapshotRange(SNAPSHOT, position, 5))
            assert partition.error_code == ErrorCode.POSITION_OUT_OF_RANGE
            assert (partition.size, partition.unaligned_records) == (0, b"")

    run(main)


def test_deleted_snapshot_is_snapshot_not_found() -> None:
    def gone(wanted: Any) -> Any:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    async def main() -> None:
        async with driving() as driven:
            driven.log.snapshot = gone
            partition = await _answered(driven, _snapshot(), SnapshotRange(SNAPSHOT, 0, 5))
            assert (partition.error_code, partition.unaligned_records) == (
                ErrorCode.SNAPSHOT_NOT_FOUND,
                b"",
            )

    run(main)


def test_unreadable_log_stops_the_node() -> None:
    def broken(wanted: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    async def main() -> None:
        async with driving() as driven:
            driven.log.range = broken
            driven.reply(answer=_fetched(), read=LogRange(0, 1, 100))
            driven.ask()
            await trio.sleep_forever()

    with pytest.raises(SourceStopped, match=r"the log cannot be read: .*Input/output error"):
        run(main)


# --- other nodes
# ------------------------------------------------------------------------------------------------------


def test_answered_event_has_number_and_version_of_the_request() -> None:
    async def main() -> None:
        async with listening(polite) as peer, driving() as driven:
            driven.raft.react = lambda event: (
                [heartbeat(peer.port, 41)] if isinstance(event, Requested) else []
            )
            driven.ask()
            await until(lambda: bool(driven.raft.of(Answered)))
            [answered] = driven.raft.of(Answered)
            assert (answered.number, answered.version, answered.message.error_code) == (41, 4, 7)
            assert (
                driven.driver.measures.request_errors == {"OTHER": 0}
                or sum(driven.driver.measures.request_errors.values()) == 1
            )
            assert driven.driver.measures.problem is None

    run(main)


def _nobody(port: int) -> Send:
    return heartbeat(1)


@pytest.mark.parametrize(
    ("send", "kind", "counted"),
    [
        (_nobody, FailureKind.UNREACHABLE, "unreachable"),
        (
            lambda port: heartbeat(port, api_key=52),
            FailureKind.UNSUPPORTED_VERSION,
            "unsupported_version",
        ),
    ],
)
def test_failed_event_has_kind_and_reason(
    send: Callable[[int], Send], kind: FailureKind, counted: str
) -> None:
    async def main() -> None:
        async with listening(polite) as peer, driving() as driven:
            driven.raft.react = lambda event: (
                [send(peer.port)] if isinstance(event, Requested) else []
            )
            driven.ask()
            await until(lambda: bool(driven.raft.of(Failed)))
            [failed] = driven.raft.of(Failed)
            assert (failed.number, failed.failure.kind) == (1, kind)
            assert driven.driver.measures.problem == failed.failure.text
            assert driven.driver.measures.request_errors == {counted: 1}

    run(main)


# --- time
# -------------------------------------------------------------------------------------------------------------


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
            await until_real(lambda: driven.log.remembered == 7)

    trio.run(main, clock=clock)


async def until_real(condition: Callable[[], bool]) -> None:
    """Wait for a thread, while the clock of the test stands still."""
    for _ in range(5000):
        if condition():
            return
        await trio.to_thread.run_sync(time.sleep, 0.001)
    raise AssertionError("it did not happen")


def test_failure_to_store_the_high_watermark_stops_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raft_driver, "_REMEMBER_S", 0.01)

    async def main() -> None:
        async with driving() as driven:
            driven.log.fails = DiskFailed(
                "write", "recovery-point", OSError(errno.EIO, "Input/output error"), "look"
            )
            driven.log.commit(7)
            await trio.sleep_forever()

    with pytest.raises(
        SourceStopped, match="cannot write recovery-point: Input/output error; look; start again"
    ):
        run(main)


# --- who acts for the leader
# ------------------------------------------------------------------------------------------


class Acting:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *what: self.told.append((name, *what))


def test_controller_is_notified_in_the_order_of_effects() -> None:
    async def main() -> None:
        async with driving() as driven:
            acting = driven.driver.leadership = Acting()
            driven.raft.react = lambda event: [
                LeaderChanged(3, 1),
                Leading(3, 10),
                Accepted(1, 11, 13),
                Advance(13),
                Refused(2, True, "why"),
                NotLeading(3),
            ]
            driven.ask()
            await settled()
            assert acting.told == [
                ("leading", 3, 10),
                ("accepted", 1, 13),
                ("committed", 13),
                ("refused", 2, True, "why"),
                ("not_leading", 3),
            ]
            assert driven.log.committed == 13, (
                "clients see it before those who made it are answered"
            )
            assert (driven.log.epoch, driven.log.leader_id) == (3, 1)

    run(main)


def test_describe_quorum_waits_for_a_confirmation_of_leadership() -> None:
    """Other questions are the core's alone."""

    async def main() -> None:
        async with driving() as driven:
            acting = driven.driver.leadership = Acting()
            driven.driver.handle_request(describe_quorum(), 2, "CONTROLLER", lambda answer: None)
            await settled()
            [(name, then)] = acting.told
            assert (name, driven.raft.events) == ("confirm", [])
            then()
            await settled()
            [event] = driven.raft.events
            assert isinstance(event, Requested) and event.message == describe_quorum()
            driven.ask()
            await settled()
            assert len(driven.raft.events) == 2 and len(acting.told) == 1

    run(main)


def test_resignation_is_handled_before_waiting_proposals() -> None:
    """What was decided by a controller that cannot go on must not be appended any more."""

    async def main() -> None:
        async with driving() as driven:
            for _ in range(3):
                driven.ask()
            driven.driver.resign(5, "a bug")
            await settled()
            assert [type(event) for event in driven.raft.events] == [
                Resign,
                Requested,
                Requested,
                Requested,
            ]

    run(main)


def test_leader_change_is_reported_once_and_the_last_led_time_is_kept() -> None:
    async def main() -> None:
        async with driving() as driven:
            assert driven.driver.measures.led_until is None
            for leader, epoch in ((2, 1), (2, 1), (-1, 1), (3, 2)):
                driven.raft.react = lambda event, epoch=epoch, leader=leader: [
                    LeaderChanged(epoch, leader)
                ]  # type: ignore[misc]
                driven.ask()
                await settled()
            assert driven.reports.counts["leader changed"] == 3
            assert driven.driver.measures.led_until is not None

    run(main)


# --- the end
# ----------------------------------------------------------------------------------------------------------


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
            await until(lambda: bool(over))
            assert len(driven.answers) == 1, "the node can still be asked"

    run(main)


def test_shut_down_returns_after_its_timeout() -> None:
    async def main() -> None:
        async with driving() as driven:
            with trio.fail_after(2):
                await driven.driver.shut_down(0.05)

    run(main)


def test_shut_down_of_a_stopped_node_returns_at_once() -> None:
    driven: list[Driven] = []

    async def main() -> None:
        async with driving(driven.append):
            pass
        with trio.fail_after(2):
            await driven[0].driver.shut_down(60)

    run(main)


# --- what people see
# --------------------------------------------------------------------------------------------------


def test_reports_of_the_core_are_logged_with_texts_of_peers_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.reply(
                0,
                Report(
                    "protocol violation",
                    {"sender": "node 2", "reason": "a\nb" + "x" * 1000},
                ),
            )
            driven.ask()
            await settled()
            assert driven.reports.counts["protocol violation"] == 1

    run(main)
    shown = capsys.readouterr().err
    assert "a\\nb" in shown and "x" * 500 not in shown
    assert "warning" in shown


def test_snapshot_download_is_measured() -> None:
    async def main() -> None:
        async with driving() as driven:
            driver = driven.driver
            for effect, name, position, size in (
                (BeginSnapshot(SNAPSHOT), SNAPSHOT.file_name, 0, 0),
                (SnapshotChunk(0, b"12345", 20), SNAPSHOT.file_name, 5, 20),
                (SnapshotChunk(5, b"12345", 20), SNAPSHOT.file_name, 10, 20),
            ):
                driven.reply(0, effect)
                driven.ask()
                await settled()
                assert driver.measures.snapshot == (name, position, size)
            driven.reply(0, AbandonSnapshot(SNAPSHOT))
            driven.ask()
            await settled()
            assert (
                driver.measures.snapshot,
                driver.measures.snapshot_downloads,
                driver.measures.snapshot_loads,
            ) == (
                None,
                1,
                0,
            )
            driven.reply(0, BeginSnapshot(SNAPSHOT), InstallSnapshot(1, SNAPSHOT))
            driven.ask()
            await settled()
            assert (
                driver.measures.snapshot,
                driver.measures.snapshot_downloads,
                driver.measures.snapshot_loads,
            ) == (
                None,
                2,
                1,
            )
            assert driver.measures.fetched_bytes == 10

    run(main)


def test_loaded_returns_at_the_first_high_watermark_or_after_its_timeout() -> None:
    async def main() -> None:
        async with driving() as driven, trio.open_nursery() as nursery:
            with trio.fail_after(2):
                await driven.driver.loaded(0.05)
            waited = trio.Event()

            async def wait() -> None:
                await driven.driver.loaded(60)
                waited.set()

            nursery.start_soon(wait)
            await settled()
            assert not waited.is_set()
            driven.reply(0, Advance(1))
            driven.ask()
            with trio.fail_after(2):
                await waited.wait()

    run(main)
