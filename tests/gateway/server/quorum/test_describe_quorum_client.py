"""DescribeQuorum sent to the leader: waiting clients share a response, and every client gets
one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from gateway.base.address import Address
from gateway.security.client_properties import ClientSecurity
from gateway.server.logging.logs import Reports
from gateway.server.node_client.settings import ConnectionSettings
from gateway.server.quorum import describe_quorum_client as quorum_questions
from gateway.server.quorum.describe_quorum_client import DescribeQuorumClient
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from tests.gateway.server.harness import run
from tests.gateway.server.upstream_peer import Node, Peer, listening
from tests.waiting import until_async

DESCRIBE_QUORUM = 55


def offer(newest: int = 2, key: int = DESCRIBE_QUORUM) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, max_version=newest),
            ApiVersion(api_key=18, max_version=4),
        ]
    )


def quorum(leader_epoch: int = 7, code: int = 0, partition_code: int = 0) -> DescribeQuorumResponse:
    partition = PartitionData(error_code=partition_code, leader_id=1, leader_epoch=leader_epoch)
    partition.current_voters = [ReplicaState(replica_id=1)]
    return DescribeQuorumResponse(
        error_code=code, topics=[TopicData(topic_name="__cluster_metadata", partitions=[partition])]
    )


async def polite(node: Node) -> None:
    """Answer with the number of requests so far as the epoch."""
    await node.greet(offer())
    asked = 0
    while True:
        one = await node.next()
        asked += 1
        await node.send(one.answer(quorum(asked)))


class Asking:
    """The object under test, and the responses that clients got."""

    def __init__(self, peer: Peer, timeout_s: float = 5.0) -> None:
        self.leader: Address | None = Address("127.0.0.1", peer.port)
        self.reports = Reports()
        how = ConnectionSettings(ClientSecurity(), "test", timeout_s)
        self.questions = DescribeQuorumClient(lambda: self.leader, how, timeout_s, self.reports)
        self.told: list[Any] = []

    async def ask(self) -> Any:
        count = len(self.told)
        self.questions.describe(self.told.append)
        await until_async(lambda: len(self.told) > count)
        return self.told[-1]


def asking(
    script: Callable[[Node], Awaitable[None]],
    look: Callable[[Asking, Peer], Awaitable[None]],
    **how: Any,
) -> None:
    async def main() -> None:
        async with listening(script) as peer, trio.open_nursery() as nursery:
            one = Asking(peer, **how)
            nursery.start_soon(one.questions.run)
            await look(one, peer)
            nursery.cancel_scope.cancel()

    run(main)


def epoch(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].leader_epoch)


def test_waiting_clients_share_a_response_and_later_ones_get_the_next() -> None:
    async def look(one: Asking, peer: Peer) -> None:
        for _ in range(100):
            one.questions.describe(one.told.append)
        await until_async(lambda: len(one.told) == 100)
        assert {epoch(answer) for answer in one.told} == {1}
        assert epoch(await one.ask()) == 2
        assert [asked.key for asked in peer.seen] == [18, DESCRIBE_QUORUM, DESCRIBE_QUORUM]

    asking(polite, look)


def test_client_during_a_request_gets_the_response_of_the_next() -> None:
    go_on = trio.Event

    async def main() -> None:
        released = go_on()

        async def slow(node: Node) -> None:
            await node.greet(offer())
            for number in (1, 2):
                one = await node.next()
                if number == 1:
                    await released.wait()
                await node.send(one.answer(quorum(number)))
            await node.next()

        async with listening(slow) as peer, trio.open_nursery() as nursery:
            one = Asking(peer)
            nursery.start_soon(one.questions.run)
            one.questions.describe(one.told.append)
            await until_async(lambda: len(peer.seen) == 2)
            one.questions.describe(one.told.append)
            released.set()
            await until_async(lambda: len(one.told) == 2)
            assert [epoch(answer) for answer in one.told] == [1, 2]
            nursery.cancel_scope.cancel()

    run(main)


def test_no_request_is_sent_while_no_leader_is_known() -> None:
    async def look(one: Asking, peer: Peer) -> None:
        leader, one.leader = one.leader, None
        assert await one.ask() == "no leader of the quorum is known at the moment; ask again"
        assert peer.seen == []
        one.leader = leader
        assert epoch(await one.ask()) == 1

    asking(polite, look)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (quorum(code=31), "allow its principal to Describe the cluster"),
        (quorum(partition_code=6), "answered with NOT_LEADER_OR_FOLLOWER (6); ask again"),
        (quorum(code=12345), "answered with error code 12345; ask again"),
        (DescribeQuorumResponse(), "answered with nothing; ask again"),
    ],
)
def test_response_with_an_error_becomes_a_reason(answer: DescribeQuorumResponse, told: str) -> None:
    async def refusing(node: Node) -> None:
        await node.greet(offer())
        while True:
            await node.send((await node.next()).answer(answer))

    async def look(one: Asking, peer: Peer) -> None:
        said = await one.ask()
        assert told in said and f"127.0.0.1:{peer.port}" in said

    asking(refusing, look)


def test_silent_leader_times_out_and_the_next_request_reconnects() -> None:
    async def silent(node: Node) -> None:
        await node.greet(offer())
        await node.next()
        await node.next()

    async def look(one: Asking, peer: Peer) -> None:
        for _ in range(2):
            assert "no answer to DescribeQuorumRequest v2 within 0.2 s" in await one.ask()
        assert [asked.key for asked in peer.seen] == [18, DESCRIBE_QUORUM] * 2

    asking(silent, look, timeout_s=0.2)


def test_closed_idle_connection_is_reopened_silently() -> None:
    async def once(node: Node) -> None:
        await node.greet(offer())
        await node.send((await node.next()).answer(quorum()))

    async def look(one: Asking, peer: Peer) -> None:
        for _ in range(3):
            assert epoch(await one.ask()) == 7
            await peer.idle.wait()
        assert [asked.key for asked in peer.seen] == [18, DESCRIBE_QUORUM] * 3

    asking(once, look)


def test_leader_that_closes_new_connections_is_not_retried_for_ever() -> None:
    async def closing(node: Node) -> None:
        await node.greet(offer())
        await node.next()

    async def look(one: Asking, peer: Peer) -> None:
        assert "closed the connection" in await one.ask()
        assert len(peer.seen) == 2

    asking(closing, look)


def test_node_without_the_api_becomes_a_reason() -> None:
    async def old(node: Node) -> None:
        await node.greet(offer(key=1))
        await node.next()

    async def look(one: Asking, peer: Peer) -> None:
        assert "does not offer DescribeQuorum" in await one.ask()

    asking(old, look)


def test_failing_callback_does_not_fail_other_clients() -> None:
    async def look(one: Asking, peer: Peer) -> None:
        def broken(answer: Any) -> None:
            raise KeyError("a bug of a handler")

        one.questions.describe(broken)
        assert epoch(await one.ask()) == 1
        assert one.reports.counts["quorum response not delivered"] == 1

    asking(polite, look)


def test_exception_becomes_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(one: Asking, peer: Peer) -> None:
        monkeypatch.setattr(quorum_questions, "describe_quorum", lambda: 1 / 0)
        assert "its log says why" in await one.ask()
        monkeypatch.undo()
        assert epoch(await one.ask()) == 1
        assert one.reports.counts["quorum description failed"] == 1

    asking(polite, look)


def test_request_beyond_the_limit_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_questions, "_WAITING_MAX", 2)
    told: list[Any] = []
    questions = DescribeQuorumClient(
        lambda: None, ConnectionSettings(ClientSecurity(), "test", 1), 1, Reports()
    )

    async def main() -> None:
        for _ in range(3):
            questions.describe(told.append)

    run(main)
    assert told == ["too many wait for an answer of the leader; ask again later"]
