"""The raft driver: requests of peers, responses of other nodes, and the bytes of log and snapshots.

Core and disk are scripted.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import FileRecords, OffsetOutOfRange, SourceStopped
from gateway.quorum.effects import (
    FailureKind,
    LogRange,
    Send,
    SnapshotRange,
)
from gateway.quorum.events import (
    Answered,
    Cancelled,
    Durable,
    Failed,
    Requested,
)
from kwire.messages import fetch_response, fetch_snapshot_response
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.messages.vote_response import VoteResponse
from kwire.protocol import ErrorCode
from tests.gateway.server.harness import run
from tests.gateway.server.scripted_raft import SNAPSHOT, Driven, append, driving, heartbeat, settled
from tests.gateway.server.upstream_peer import listening, polite
from tests.waiting import until_async

# --- requests of peers


def test_cancelled_request_is_reported_to_the_core_and_reads_nothing() -> None:
    async def main() -> None:
        async with driving() as driven:
            read: list[Any] = []
            driven.log.range = read.append  # type: ignore[assignment]
            driven.log.gate.clear()
            driven.reply(1, append(1), answer=_fetched(), read=LogRange(0, 1, 100))
            pending = PendingResponse()
            driven.driver.ask(VoteResponse(), 2, "CONTROLLER", pending)
            await until_async(driven.log.busy.is_set)
            pending.cancel()
            driven.log.gate.set()
            await until_async(lambda: bool(driven.raft.of(Durable)))
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
            await until_async(lambda: pending.done)
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
    await until_async(lambda: bool(driven.answers))
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
    """The core does not know yet that the log begins later."""

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


# --- requests to other nodes


def test_answered_event_has_number_and_version_of_the_request() -> None:
    async def main() -> None:
        async with listening(polite) as peer, driving() as driven:
            driven.raft.react = lambda event: (
                [heartbeat(peer.port, 41)] if isinstance(event, Requested) else []
            )
            driven.ask()
            await until_async(lambda: bool(driven.raft.of(Answered)))
            [answered] = driven.raft.of(Answered)
            assert (answered.number, answered.version, answered.message.error_code) == (41, 4, 7)
            assert driven.driver.measures.request_errors == {"REQUEST_TIMED_OUT": 1}
            assert driven.driver.measures.problem is None

    run(main)


def _nobody(port: int) -> Send:
    return heartbeat(1)


@pytest.mark.parametrize(
    ("send", "kind", "counted"),
    [
        (_nobody, FailureKind.REFUSED, "unreachable"),
        (lambda port: heartbeat(-1), FailureKind.UNREACHABLE, "unreachable"),
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
            await until_async(lambda: bool(driven.raft.of(Failed)))
            [failed] = driven.raft.of(Failed)
            assert (failed.number, failed.failure.kind) == (1, kind)
            assert driven.driver.measures.problem == failed.failure.text
            assert driven.driver.measures.request_errors == {counted: 1}

    run(main)
