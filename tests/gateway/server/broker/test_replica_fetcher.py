"""A broker that fetches from a leader over TCP: requests, sessions, errors, changes of leaders."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from gateway.base.address import Address
from gateway.broker.replica.fetcher import FetcherSettings
from gateway.security.client_properties import ClientSecurity
from gateway.server.broker.broker_connection import InterBrokerSettings
from gateway.server.broker.replica_fetcher import (
    FetcherContext,
    FetchingSettings,
    ReplicaFetcher,
    Source,
)
from gateway.server.broker.replication_throttle import ReplicationThrottle
from gateway.server.logging.logs import Reports
from gateway.server.node_client.settings import ConnectionSettings
from gateway.sources.data_partition import DataPartition
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kwire.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol import ErrorCode
from tests.gateway.server.upstream_peer import Asked, Node, Peer, listening
from tests.gateway.sources.data_partitions import TOPIC_ID, record_of_leader, settle
from tests.gateway.sources.followings import following, position
from tests.gateway.sources.test_follower_appends import batch
from tests.waiting import until_async

FETCH, LIST_OFFSETS = 1, 2
OFFER = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, max_version=newest)
        for key, newest in ((18, 4), (FETCH, 18), (LIST_OFFSETS, 10))
    ]
)
Answer = Callable[[Asked], Any]


def news(session: int = 7, **fields: Any) -> FetchResponse:
    """An answer with something about the partition."""
    data = PartitionData(partition_index=0, **fields)
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    return FetchResponse(session_id=session, responses=[topic])


def offsets(offset: int) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


@dataclass
class Leader:
    """Gives the answers of a list, then none: as a leader that waits for records."""

    answers: list[Any]
    asked: list[Any] = field(default_factory=list)

    async def serve(self, node: Node) -> None:
        await node.greet(OFFER)
        while True:
            request = await node.next()
            self.asked.append(request.message)
            if not self.answers:
                await node.next()  # until the connection is closed
            answer = self.answers.pop(0)
            if answer is None:
                return  # close the connection
            await node.send(request.answer(answer))


def context(**limits: Any) -> FetcherContext:
    """The things that the fetchers of broker 1 use."""
    settings = FetchingSettings(
        InterBrokerSettings("PLAINTEXT", ConnectionSettings(ClientSecurity(), "test", 30.0)),
        FetcherSettings(**{"backoff_s": 0.01, **limits}),
    )
    return FetcherContext(1, lambda: 55, settings, Reports(), ReplicationThrottle("follower", 1))


async def perform(one: DataPartition) -> None:
    """Perform the jobs of a partition, for ever."""
    while True:
        settle(one)
        await trio.sleep(0.002)


@contextlib.asynccontextmanager
async def fetching(
    one: DataPartition, address: Callable[[], Address | None], **limits: Any
) -> AsyncIterator[tuple[ReplicaFetcher, Reports]]:
    """Fetch ``one`` from a leader, and perform its jobs."""
    of_all = context(**limits)
    fetcher = ReplicaFetcher(Source(2, address), of_all)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(perform, one)
        nursery.start_soon(fetcher.run)
        fetcher.follow(one, one.leader_epoch)
        yield fetcher, of_all.reports
        nursery.cancel_scope.cancel()


def at(peer: Peer) -> Callable[[], Address]:
    return lambda: Address("127.0.0.1", peer.port)


def run(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main)


def test_records_come_into_the_log_and_the_next_request_goes_on_in_the_session(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        leader = Leader([news(records=batch(0, b"a", b"b"), high_watermark=1)])
        async with listening(leader.serve) as peer, fetching(one, at(peer)):
            await until_async(lambda: len(leader.asked) == 2, "the second request")
        first, second = leader.asked
        assert (first.session_epoch, first.replica_state.replica_epoch) == (0, 55)
        assert (second.session_id, second.session_epoch) == (7, 1)
        assert second.topics[0].partitions[0].fetch_offset == 2
        assert position(one).end_offset == 2 and one.high_watermark == 1

    run(main)


def test_log_outside_of_the_leaders_begins_where_the_leaders_does(tmp_path: Path) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        leader = Leader([news(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), offsets(40), offsets(50)])
        async with listening(leader.serve) as peer, fetching(one, at(peer)) as (_, reports):
            await until_async(lambda: len(leader.asked) == 4, "the next Fetch")
        assert [found.topics[0].partitions[0].timestamp for found in leader.asked[1:3]] == [-2, -1]
        assert position(one).end_offset == 40
        assert reports.counts["partition truncated"] == 1

    run(main)


def test_other_history_is_cut_off(tmp_path: Path) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        diverging = news(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1))
        leader = Leader([news(records=batch(0, b"a") + batch(1, b"b")), diverging])
        async with listening(leader.serve) as peer, fetching(one, at(peer)):
            await until_async(lambda: len(leader.asked) == 3, "the Fetch behind the truncation")
        assert position(one).end_offset == 1
        assert leader.asked[2].topics[0].partitions[0].fetch_offset == 1

    run(main)


def test_connection_that_breaks_is_made_again_with_a_new_session(tmp_path: Path) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        leader = Leader([news(records=batch(0, b"a")), None, news(records=batch(1, b"b"))])
        async with listening(leader.serve) as peer, fetching(one, at(peer)) as (_, reports):
            await until_async(lambda: len(leader.asked) == 4, "the fourth request")
        assert [found.session_epoch for found in leader.asked] == [0, 1, 0, 1]
        assert position(one).end_offset == 2
        assert reports.counts["leader not reached"] == 1

    run(main)


def test_leader_without_an_address_is_reported_once_and_found_later(tmp_path: Path) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        known: list[Address] = []
        leader = Leader([news(records=batch(0, b"a"))])
        async with (
            listening(leader.serve) as peer,
            fetching(one, lambda: known[0] if known else None) as (_, reports),
        ):
            await until_async(lambda: reports.counts["leader not reached"] > 0, "a report")
            await trio.sleep(0.05)
            assert reports.counts["leader not reached"] == 1
            known.append(at(peer)())
            await until_async(lambda: position(one).end_offset == 1, "the record")

    run(main)


def test_bad_records_are_reported_and_fetched_again(tmp_path: Path) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        bad = batch(0, b"a")[:-1] + b"\xff"
        leader = Leader([news(records=bad), news(), news(records=batch(0, b"a"))])
        async with listening(leader.serve) as peer, fetching(one, at(peer)) as (_, reports):
            await until_async(lambda: position(one).end_offset == 1, "the record")
        assert reports.counts["partition not fetched"] == 1

    run(main)


def test_partition_that_is_followed_no_more_leaves_the_session(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = following(tmp_path / "t-0"), following(tmp_path / "t-1")
        other.index = 1
        leader = Leader([news()])
        async with listening(leader.serve) as peer, fetching(one, at(peer)) as (fetcher, _):
            fetcher.follow(other, 1)
            await until_async(lambda: len(leader.asked) == 2, "a request in the session")
            fetcher.unfollow(one)
            leader.answers.append(news())
        assert fetcher.core.find(TOPIC_ID, 0) is None
        assert fetcher.core.find(TOPIC_ID, 1) is not None

    run(main)


def test_answer_that_comes_after_a_change_of_leaders_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        gate = trio.Event()

        async def serve(node: Node) -> None:
            await node.greet(OFFER)
            asked = await node.next()
            await gate.wait()
            await node.send(asked.answer(news(records=batch(0, b"old"))))
            second.append((await node.next()).message)
            await node.next()

        second: list[Any] = []
        async with listening(serve) as peer, fetching(one, at(peer)) as (fetcher, _):
            await until_async(lambda: len(peer.seen) == 2, "the first Fetch")
            one.follow(record_of_leader(2))
            fetcher.follow(one, 2)
            gate.set()
            await until_async(lambda: bool(second), "the second Fetch")
        assert second[0].topics[0].partitions[0].current_leader_epoch == 2
        assert position(one).end_offset == 0

    run(main)
