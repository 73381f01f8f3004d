"""Rows 35 to 47 of the checklist of hostile input against a running node: one that leads, and one
that follows.

After every row the node is alive, its epoch, leader and vote are unchanged, its log has lost
nothing, and clients are served. The sender is authorized for CLUSTER_ACTION here; the tests of the
handlers refuse others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.base.address import Address
from gateway.quorum import requests, serving
from gateway.quorum.partition import Position
from gateway.quorum.roles import Leader
from gateway.quorum.voter_set import VoterNode
from kwire.message import Message
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.metadata_request import MetadataRequest
from kwire.protocol import ErrorCode
from tests.gateway.server.harness import connect, request, run
from tests.gateway.server.own_nodes import (
    CLUSTER_ID,
    OwnNode,
    cluster,
    lone_config,
    lone_node,
    own_node,
)
from tests.hostile.quorum_rows import CLOSED, EPOCH_MAX, FENCED, INVALID, OFFSET_MAX, ROWS, Row
from tests.hostile.voter_requests import VoterRequests, other_cluster, spoil, with_topics
from tests.waiting import PATIENCE_S, until_async

VOTE, BEGIN, END, FETCH, FETCH_SNAPSHOT, ADD, REMOVE, UPDATE = 52, 53, 54, 1, 59, 80, 81, 82
NEWEST = {VOTE: 2, BEGIN: 1, END: 1, FETCH: 18, FETCH_SNAPSHOT: 1, ADD: 1, REMOVE: 0, UPDATE: 0}


@pytest.fixture(scope="module")
def leader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNode]:
    """A quorum of one, in a thread of its own. All rows use it, each after the ones before."""
    started = threading.Event()
    box: dict[str, Any] = {}
    data_dir = tmp_path_factory.mktemp("own")

    async def main() -> None:
        for _ in range(2):
            async with lone_node(data_dir, cluster_id=CLUSTER_ID):
                pass  # each start begins an epoch, so that there is one before
        async with lone_node(data_dir, cluster_id=CLUSTER_ID) as node:
            await node.create("orders")
            box.update(node=node, token=trio.lowlevel.current_trio_token(), stop=trio.Event())
            started.set()
            await box["stop"].wait()

    thread = threading.Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    assert started.wait(PATIENCE_S), "the server did not start"
    yield box["node"]
    box["token"].run_sync_soon(box["stop"].set)
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the server did not stop"


async def outcome(
    node: OwnNode, message: Message, version: int, listener: str = "CONTROLLER"
) -> int | None:
    """The first error of the response, 0 without one, or CLOSED."""
    assert message.API_KEY is not None
    async with await connect(node.ports[listener]) as client:
        await client.send(request(18, 0, b""))  # larger frames are accepted only after a valid one
        await client.answer(18, 0)
        await client.send(request(message.API_KEY, version, message.encode(version)))
        with trio.fail_after(PATIENCE_S):
            try:
                _, answer = await client.answer(message.API_KEY, version)
            except (AssertionError, trio.BrokenResourceError):
                return CLOSED
    return first_error(answer)


def first_error(answer: Any) -> int:
    parts = getattr(answer, "responses", None) or getattr(answer, "topics", None) or ()
    codes = [
        getattr(answer, "error_code", 0),
        *(one.error_code for part in parts for one in part.partitions),
    ]
    return next((code for code in codes if code), 0)


async def assert_served(node: OwnNode) -> None:
    """Fail unless a client gets the metadata."""
    with trio.fail_after(PATIENCE_S):
        answer = await node.ask(MetadataRequest(topics=None), 12)
        assert "__cluster_metadata" in [topic.name for topic in answer.topics]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_leader_refuses_the_row_and_keeps_its_state(leader: OwnNode, row: Row) -> None:
    async def main() -> None:
        before, end = leader.state(), leader.raft.log.end_offset
        message = row.make(VoterRequests(leader, CLUSTER_ID))
        version = NEWEST[message.API_KEY or 0] if row.version is None else row.version
        assert await outcome(leader, message, version) == row.error
        assert leader.state() == before
        assert leader.raft.log.end_offset >= end
        assert leader.raft.role == "leader" and leader.quorum.controller.is_active
        await assert_served(leader)

    run(main)


def test_leader_grants_no_vote_even_to_a_longer_log(leader: OwnNode) -> None:
    async def main() -> None:
        for version in range(3):
            made = VoterRequests(leader, CLUSTER_ID).vote(
                version, log_end=Position(OFFSET_MAX, leader.raft.epoch - 1)
            )
            answer = await leader.ask(made, version, "CONTROLLER")
            partition = answer.topics[0].partitions[0]
            assert (partition.vote_granted, partition.leader_id, partition.leader_epoch) == (
                False,
                1,
                leader.raft.epoch,
            )

    run(main)


@pytest.mark.parametrize("key", [VOTE, BEGIN, END, FETCH_SNAPSHOT, UPDATE])
def test_row_36_quorum_request_on_a_client_listener_closes_the_connection(
    leader: OwnNode, key: int
) -> None:
    async def main() -> None:
        asking = VoterRequests(leader, CLUSTER_ID)
        made: dict[int, Message] = {
            VOTE: asking.vote(),
            BEGIN: asking.begin(),
            END: asking.end_epoch(),
            FETCH_SNAPSHOT: asking.fetch_snapshot(),
            UPDATE: requests.update_voter(CLUSTER_ID, leader.raft.epoch, VoterNode(1)),
        }
        before = leader.state()
        for version in range(NEWEST[key] + 1):
            assert await outcome(leader, _at(made[key], version), version, "PLAINTEXT") is CLOSED
        assert (leader.state(), sorted(leader.raft.voters.nodes)) == (before, [1])
        await assert_served(leader)

    run(main)


def _at(message: Message, version: int) -> Message:
    """The message, or one with defaults only for a version that lacks its fields."""
    return type(message)() if version < NEWEST[message.API_KEY or 0] else message


def test_row_36_fetch_of_a_replica_on_a_client_listener_is_a_consumers(leader: OwnNode) -> None:
    async def main() -> None:
        followers = leader.raft.replicas
        await outcome(
            leader, VoterRequests(leader, CLUSTER_ID).fetch(17, replica=55), 17, "PLAINTEXT"
        )
        assert [one.id for one in leader.raft.replicas[1] if one.id == 55] == []
        assert len(leader.raft.replicas[0]) == len(followers[0])

    run(main)


def test_row_44_parked_fetches_are_bounded_and_end_with_their_connections(
    leader: OwnNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_DELAYED_MAX", 8)

    async def main() -> None:
        def wait_for_ever() -> Message:
            made: FetchRequest = VoterRequests(leader, CLUSTER_ID).fetch(
                18, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1
            )
            end = leader.raft.log.end_offset
            return spoil(
                made,
                fetch_offset=end,
                last_fetched_epoch=leader.raft.log.last_epoch,
                high_watermark=end,
            )

        def parked() -> int:
            role = leader.raft._node.role
            assert isinstance(role, Leader)
            return len(role.delayed)

        answered = 0
        clients = [await connect(leader.ports["CONTROLLER"]) for _ in range(20)]
        for client in clients:
            await client.send(request(FETCH, 18, wait_for_ever().encode(18)))
        async with trio.open_nursery() as nursery:

            async def answer(client: Any) -> None:
                nonlocal answered
                await client.answer(FETCH, 18)
                answered += 1

            for client in clients:
                nursery.start_soon(answer, client)
            await until_async(lambda: answered == 12, "answers to those beyond the limit")
            assert parked() == 8
            await assert_served(leader)
            nursery.cancel_scope.cancel()
        for client in clients:
            await trio.aclose_forcefully(client.stream)
        await until_async(lambda: parked() == 0, "no request is parked")

    run(main)


def test_row_47_requests_replayed_after_a_restart_are_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            first = VoterRequests(node, CLUSTER_ID)
            captured = [
                (first.vote(), 2),
                (first.begin(leader=1), 1),
                (first.end_epoch(leader=1), 1),
                (first.fetch(18), 18),
            ]
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            before = node.state()
            for message, version in captured * 2:
                assert await outcome(node, message, version) == FENCED
            assert node.state() == before

    run(main)


# --- a follower


FOLLOWER_ROWS = [
    Row(41, "a second leader begins", lambda a: a.begin(leader=3), INVALID),
    Row(41, "a second leader ends", lambda a: a.end_epoch(leader=3), INVALID),
    Row(41, "the follower itself would lead", lambda a: a.begin(leader=1), INVALID),
    Row(41, "the follower itself would lead later", lambda a: a.begin(leader=1, epoch=1), INVALID),
    Row(39, "its leader in an epoch before", lambda a: a.begin(leader=2, epoch=-1), FENCED),
    Row(39, "the end of an epoch before", lambda a: a.end_epoch(leader=2, epoch=-1), FENCED),
    Row(38, "its leader begins nothing", lambda a: with_topics(a.begin(leader=2), 0), INVALID),
    Row(
        40,
        "a vote in the same epoch",
        lambda a: a.vote(candidate=3, log_end=Position(10**6, a.epoch - 1)),
        0,
    ),
    Row(
        42,
        "its leader of another cluster",
        lambda a: other_cluster(a.begin(leader=2)),
        ErrorCode.INCONSISTENT_CLUSTER_ID,
    ),
    Row(
        40,
        "its leader means another",
        lambda a: a.begin(leader=2, voter=VoterNode(3)),
        ErrorCode.INVALID_VOTER_KEY,
    ),
    Row(44, "a replica fetches", lambda a: a.fetch(18), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    Row(
        44,
        "a replica fetches a snapshot",
        lambda a: a.fetch_snapshot(),
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ),
]


def test_row_41_follower_keeps_its_leader_and_refuses_each_row(
    tmp_path: Path,
) -> None:
    """Kafka's raft thread threw IllegalStateException at the first row, and its process ended."""

    async def main() -> None:
        voters = {
            1: Address("127.0.0.1", 0),
            2: Address("127.0.0.1", 1),
            3: Address("127.0.0.1", 1),
        }
        patient = {
            "controller_quorum_fetch_timeout_ms": 60_000,
            "controller_quorum_campaign": False,
        }
        config = lone_config(
            tmp_path, controller_quorum_voters=voters, cluster_id=CLUSTER_ID, **patient
        )
        async with own_node(config) as node:
            assert (
                await outcome(
                    node, spoil(VoterRequests(node, CLUSTER_ID).begin(leader=2), leader_epoch=5), 1
                )
                == 0
            )
            assert node.state()[:2] == (5, 2)
            before = node.state()
            for row in FOLLOWER_ROWS:
                message = row.make(VoterRequests(node, CLUSTER_ID))
                assert (str(row), await outcome(node, message, NEWEST[message.API_KEY or 0])) == (
                    str(row),
                    row.error,
                )
                assert (str(row), node.state(), node.raft.role) == (str(row), before, "follower")
            await assert_served(node)

    run(main)


def test_row_46_fetches_of_non_voters_at_the_log_end_commit_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, controller_quorum_fetch_timeout_ms=20_000) as three:
            await three.start()
            leader = await three.leader()
            others = [node for node in three.nodes.values() if node is not leader]
            for node in others:
                await node.cut_off()
            committed = leader.raft.high_watermark
            assert await leader.create("alone", timeout_ms=100) == ErrorCode.REQUEST_TIMED_OUT
            await until_async(
                lambda: leader.raft.log.flushed > committed, "the leader has the topic"
            )
            end = Position(leader.raft.log.end_offset, leader.raft.log.last_epoch)
            asking = VoterRequests(leader, CLUSTER_ID)
            ids = [-1, 0, 77, EPOCH_MAX, leader.raft.node_id]
            for id in ids:
                for version in (13, 15, 17, 18):
                    await outcome(leader, asking.fetch(version, replica=id, log_end=end), version)
            one_too_old = asking.fetch(18, replica=others[0].raft.node_id, log_end=end, epoch=-1)
            assert await outcome(leader, one_too_old, 18) == FENCED
            assert leader.raft.high_watermark == committed
            assert leader.log.high_watermark == committed

    run(main)
