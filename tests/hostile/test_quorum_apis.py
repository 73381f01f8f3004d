"""The checklist of hostile input, requests between the nodes of a quorum (rows 36 to 47): one that
leads, one that follows.

After every row the node is alive, its epoch, leader and vote are what they were, nothing of its log
is gone, and clients are served. Who asks may act for the cluster here; that others may not is
tested with the handlers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.address import Address
from gateway.quorum import requests, serving
from gateway.quorum.partition import TOPIC_NAME, Position
from gateway.quorum.voter_set import VoterNode
from gateway.snapshot_id import SnapshotId
from kwire.message import Message
from kwire.messages.end_quorum_epoch_request import ReplicaInfo
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.metadata_request import MetadataRequest
from kwire.messages.vote_request import VoteRequest
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID, Uuid
from tests.gateway.server.harness import connect, request, run, until
from tests.gateway.server.own_nodes import (
    CLUSTER_ID,
    OwnNode,
    cluster,
    lone_config,
    lone_node,
    own_node,
)

EPOCH_MAX = OFFSET_MAX_32 = 2**31 - 1
OFFSET_MAX = 2**63 - 1
OUTSIDER = Uuid(b"stranger" * 2)
NO_SNAPSHOT = SnapshotId(5, 1)
VOTE, BEGIN, END, FETCH, FETCH_SNAPSHOT, ADD, REMOVE, UPDATE = 52, 53, 54, 1, 59, 80, 81, 82
CLOSED = None

_SOME = SnapshotId(5, 1)


class Asking:
    """Requests as a voter writes them, for a test to spoil."""

    def __init__(self, node: OwnNode, cluster_id: str) -> None:
        self.node, self.cluster_id = node, cluster_id
        self.me = node.raft.node_id
        self.epoch = node.raft.epoch
        self.end = Position(node.raft.log.end_offset, node.raft.log.last_epoch)

    def vote(
        self,
        version: int = 2,
        *,
        epoch: int = 0,
        candidate: int = 77,
        pre_vote: bool = False,
        **more: Any,
    ) -> VoteRequest:
        """By a stranger with an empty log, whom nobody should elect; ``epoch`` counts from the
        node's.
        """
        return requests.vote(
            version,
            cluster_id=self.cluster_id,
            epoch=self.epoch + epoch,
            candidate=(candidate, OUTSIDER),
            voter=more.get("voter", VoterNode(self.me)),
            log_end=more.get("log_end", Position(0, 0)),
            pre_vote=pre_vote,
        )

    def begin(
        self, version: int = 1, *, epoch: int = 0, leader: int = 77, voter: VoterNode | None = None
    ) -> Any:
        voter = voter or VoterNode(self.me)
        endpoints = {"CONTROLLER": Address("127.0.0.1", 1)}
        return requests.begin_quorum_epoch(
            version,
            cluster_id=self.cluster_id,
            epoch=self.epoch + epoch,
            leader_id=leader,
            voter=voter,
            endpoints=endpoints,
        )

    def end_epoch(
        self, version: int = 1, *, epoch: int = 0, leader: int = 77, successors: Any = ()
    ) -> Any:
        return requests.end_quorum_epoch(
            version,
            cluster_id=self.cluster_id,
            epoch=self.epoch + epoch,
            leader_id=leader,
            successors=successors,
            endpoints={},
        )

    def fetch(
        self,
        version: int = 17,
        *,
        epoch: int = 0,
        replica: int = 77,
        log_end: Position | None = None,
        **more: Any,
    ) -> Any:
        made = requests.fetch(
            version,
            cluster_id=self.cluster_id,
            replica=(replica, OUTSIDER),
            epoch=self.epoch + epoch,
            log_end=log_end or Position(0, 0),
            high_watermark=-1,
            max_wait_ms=0,
            max_bytes=1 << 20,
        )
        for name, value in more.items():
            setattr(made, name, value)
        return made

    def fetch_snapshot(
        self, version: int = 1, *, epoch: int = 0, id: SnapshotId = _SOME, position: int = 0
    ) -> Any:
        return requests.fetch_snapshot(
            version,
            cluster_id=self.cluster_id,
            replica=(77, OUTSIDER),
            epoch=self.epoch + epoch,
            id=id,
            position=position,
            max_bytes=1 << 20,
        )


@dataclass(frozen=True)
class Row:
    """``made`` is asked on the controllers' listener; the first error of the answer must be
    ``error``, CLOSED is no answer.
    """

    number: int
    what: str
    made: Callable[[Asking], Message]
    error: int | None
    version: int | None = None  #: the newest, if none is given

    def __str__(self) -> str:
        return f"{self.number}-{self.what}".replace(" ", "-")


def with_topics(message: Any, count: int) -> Any:
    """So many of its one topic."""
    message.topics = message.topics * count
    return message


def with_partitions(message: Any, count: int) -> Any:
    message.topics[0].partitions = message.topics[0].partitions * count
    return message


def wrong_topic(message: Any) -> Any:
    topic = message.topics[0]
    if isinstance(message, FetchRequest):
        topic.topic_id = OUTSIDER
    elif isinstance(message, FetchSnapshotRequest):
        topic.name = "orders"
    else:
        topic.topic_name = "orders"
    return message


def wrong_partition(message: Any, index: int) -> Any:
    partition = message.topics[0].partitions[0]
    if hasattr(partition, "partition_index"):
        partition.partition_index = index
    else:
        partition.partition = index
    return message


def spoil(message: Any, **fields: Any) -> Any:
    """With other fields in its partition."""
    for name, value in fields.items():
        setattr(message.topics[0].partitions[0], name, value)
    return message


def other_cluster(message: Any, cluster_id: str = "another-cluster-000000") -> Any:
    message.cluster_id = cluster_id
    return message


NEWEST = {VOTE: 2, BEGIN: 1, END: 1, FETCH: 18, FETCH_SNAPSHOT: 1, ADD: 1, REMOVE: 0, UPDATE: 0}
MAKERS: dict[str, Callable[[Asking], Any]] = {
    "vote": lambda a: a.vote(),
    "begin": lambda a: a.begin(leader=a.me),
    "end": lambda a: a.end_epoch(leader=a.me),
    "fetch": lambda a: a.fetch(18),
    "fetch snapshot": lambda a: a.fetch_snapshot(),
}
INVALID, FENCED, UNKNOWN_EPOCH = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)


def shapes() -> Iterator[Row]:
    """38: how many topics and partitions, and which."""
    for name, make in MAKERS.items():
        for count in (0, 2, 1000):
            yield Row(
                38,
                f"{name} of {count} topics",
                lambda a, m=make, n=count: with_topics(m(a), n),  # type: ignore[misc]
                INVALID,
            )
            yield Row(
                38,
                f"{name} of {count} partitions",
                lambda a, m=make, n=count: with_partitions(m(a), n),  # type: ignore[misc]
                INVALID,
            )
        wrong = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name == "fetch snapshot" else INVALID
        yield Row(38, f"{name} of another topic", lambda a, m=make: wrong_topic(m(a)), wrong)  # type: ignore[misc]
        for index in (1, -1, EPOCH_MAX):
            yield Row(
                38,
                f"{name} of partition {index}",
                lambda a, m=make, i=index: wrong_partition(m(a), i),  # type: ignore[misc]
                wrong,
            )
    yield Row(38, "fetch by name at version 12", lambda a: _fetch_12(a), 0, version=12)


def _fetch_12(asking: Asking) -> Any:
    message = asking.fetch(13)
    message.topics[0].topic_id, message.topics[0].topic = ZERO_UUID, TOPIC_NAME
    return message


def epochs() -> Iterator[Row]:
    """39: epochs and offsets that cannot be."""
    for name, make in MAKERS.items():
        field = {"vote": "replica_epoch", "begin": "leader_epoch", "end": "leader_epoch"}.get(
            name, "current_leader_epoch"
        )
        for epoch in (-1, -(2**31)):
            error = INVALID if name in ("vote", "fetch") else FENCED  # the log is of a later epoch
            yield Row(
                39,
                f"{name} in epoch {epoch}",
                lambda a, m=make, f=field, e=epoch: spoil(m(a), **{f: e}),  # type: ignore[misc]
                error,
            )
        yield Row(
            39,
            f"{name} in the epoch before",
            lambda a, m=make, f=field: spoil(m(a), **{f: a.epoch - 1}),  # type: ignore[misc]
            FENCED,
        )
    for ahead in (1, 1000):
        yield Row(
            39,
            f"fetch {ahead} epochs ahead",
            lambda a, n=ahead: a.fetch(18, epoch=n),  # type: ignore[misc]
            UNKNOWN_EPOCH,
        )
        yield Row(
            39,
            f"fetch snapshot {ahead} epochs ahead",
            lambda a, n=ahead: a.fetch_snapshot(epoch=n),  # type: ignore[misc]
            UNKNOWN_EPOCH,
        )
    yield Row(
        39,
        "fetch in the last epoch",
        lambda a: spoil(a.fetch(18), current_leader_epoch=EPOCH_MAX),
        UNKNOWN_EPOCH,
    )
    yield Row(39, "fetch from offset -1", lambda a: spoil(a.fetch(18), fetch_offset=-1), INVALID)
    yield Row(
        39, "fetch from the last offset", lambda a: spoil(a.fetch(18), fetch_offset=OFFSET_MAX), 0
    )
    yield Row(
        39,
        "fetch behind the end",
        lambda a: a.fetch(18, log_end=Position(a.end.offset + 10**6, a.epoch)),
        0,
    )
    yield Row(
        39,
        "last fetched epoch ahead",
        lambda a: spoil(a.fetch(18), last_fetched_epoch=a.epoch + 1),
        INVALID,
    )
    yield Row(
        39, "last fetched epoch -1", lambda a: spoil(a.fetch(18), last_fetched_epoch=-1), INVALID
    )
    yield Row(
        39,
        "vote with a log of its own epoch",
        lambda a: spoil(a.vote(), last_offset_epoch=a.epoch),
        INVALID,
    )
    yield Row(
        39,
        "vote with a log of a later epoch",
        lambda a: spoil(a.vote(), last_offset_epoch=EPOCH_MAX),
        INVALID,
    )
    yield Row(
        39, "vote with a log of epoch -1", lambda a: spoil(a.vote(), last_offset_epoch=-1), INVALID
    )
    yield Row(
        39, "vote with a log of -1 records", lambda a: spoil(a.vote(), last_offset=-1), INVALID
    )
    yield Row(
        39,
        "snapshot of no such offset",
        lambda a: a.fetch_snapshot(id=SnapshotId(OFFSET_MAX, 1)),
        98,
    )
    yield Row(39, "snapshot of offset -1", lambda a: a.fetch_snapshot(id=SnapshotId(-1, -1)), 98)
    yield Row(39, "snapshot of formatting", lambda a: a.fetch_snapshot(id=SnapshotId(0, 0)), 98)
    yield Row(39, "position -1", lambda a: a.fetch_snapshot(position=-1), 98)


def ids() -> Iterator[Row]:
    """40: who asks, and who is asked."""
    for candidate in (-1, -(2**31)):
        yield Row(40, f"vote for {candidate}", lambda a, n=candidate: a.vote(candidate=n), INVALID)  # type: ignore[misc]
        yield Row(
            40,
            f"leader {candidate} begins",
            lambda a, n=candidate: a.begin(leader=n),  # type: ignore[misc]
            INVALID,
        )
        yield Row(
            40,
            f"leader {candidate} ends",
            lambda a, n=candidate: a.end_epoch(leader=n),  # type: ignore[misc]
            INVALID,
        )
    yield Row(40, "vote for the receiver", lambda a: a.vote(candidate=a.me), INVALID)
    yield Row(40, "vote for a stranger", lambda a: a.vote(candidate=OFFSET_MAX_32), 0)
    yield Row(40, "pre-vote for a stranger", lambda a: a.vote(pre_vote=True), 0)
    yield Row(
        40,
        "vote of somebody else",
        lambda a: a.vote(voter=VoterNode(99)),
        ErrorCode.INVALID_VOTER_KEY,
    )
    yield Row(
        40,
        "vote of another directory",
        lambda a: a.vote(voter=VoterNode(a.me, OUTSIDER)),
        ErrorCode.INVALID_VOTER_KEY,
    )
    yield Row(
        40,
        "fetch by the receiver",
        lambda a: a.fetch(18, replica=a.me),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
    for replica in (-2, -(2**31), OFFSET_MAX_32):
        yield Row(40, f"fetch by {replica}", lambda a, n=replica: a.fetch(18, replica=n), 0)  # type: ignore[misc]
    yield Row(41, "a second leader begins", lambda a: a.begin(leader=2), INVALID)
    yield Row(41, "a second leader ends", lambda a: a.end_epoch(leader=2), INVALID)
    for name, make in MAKERS.items():
        yield Row(
            42,
            f"{name} of another cluster",
            lambda a, m=make: other_cluster(m(a)),  # type: ignore[misc]
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        )
        yield Row(
            42,
            f"{name} of no cluster",
            lambda a, m=make: other_cluster(m(a), ""),  # type: ignore[misc]
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        )
    yield Row(
        42,
        "a voter of another cluster",
        lambda a: _add(a, "another-cluster-000000"),
        ErrorCode.INCONSISTENT_CLUSTER_ID,
    )


def _add(asking: Asking, cluster_id: str) -> Message:
    return requests.add_voter(
        1, cluster_id=cluster_id, node=VoterNode(77, OUTSIDER), timeout_ms=100
    )


def successions() -> Iterator[Row]:
    """43: who should be next, says one who does not lead."""
    for version in (0, 1):
        for name, successors in (
            ("nobody", []),
            ("the same twice", [(3, OUTSIDER), (3, OUTSIDER)]),
            ("900", [(id, OUTSIDER) for id in range(900)]),
        ):
            made = lambda a, v=version, s=successors: a.end_epoch(v, leader=2, successors=s)  # noqa: E731
            yield Row(
                43,
                f"version {version} from a non-leader names {name}",
                made,
                INVALID,
                version=version,
            )
    million = [ReplicaInfo(candidate_id=1)] * 100_000
    yield Row(
        43,
        "100,000 of them",
        lambda a: spoil(a.end_epoch(leader=2), preferred_candidates=million),
        CLOSED,
    )


def fetches() -> Iterator[Row]:
    """44, 45: numbers of a Fetch that nobody has."""
    for size in (0, -1, -(2**31), 2**31 - 1):
        yield Row(44, f"fetch of {size} bytes", lambda a, n=size: a.fetch(18, max_bytes=n), 0)  # type: ignore[misc]
        yield Row(
            44,
            f"fetch of at least {size} bytes",
            lambda a, n=size: a.fetch(18, min_bytes=n),  # type: ignore[misc]
            0,
        )
    yield Row(44, "fetch that waits for -1 ms", lambda a: a.fetch(18, max_wait_ms=-1), INVALID)
    for epoch in (-1, 0, 1, 5, EPOCH_MAX):
        for id in (0, 1, -1, EPOCH_MAX):
            made = lambda a, i=id, e=epoch: a.fetch(18, session_id=i, session_epoch=e)  # noqa: E731
            yield Row(45, f"session {id} epoch {epoch}", made, 0)


ROWS = [*shapes(), *epochs(), *ids(), *successions(), *fetches()]


@pytest.fixture(scope="module")
def leader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNode]:
    """A quorum of one, in a thread of its own: what one row leaves behind is what the next one
    meets.
    """
    started, box = threading.Event(), {}  # type: ignore[var-annotated]

    data_dir = tmp_path_factory.mktemp("own")

    async def main() -> None:
        for _ in range(2):
            async with lone_node(data_dir, cluster_id=CLUSTER_ID):
                pass  # an epoch, so that there is one before
        async with lone_node(data_dir, cluster_id=CLUSTER_ID) as node:
            await node.create("orders")
            box.update(node=node, token=trio.lowlevel.current_trio_token(), stop=trio.Event())
            started.set()
            await box["stop"].wait()

    thread = threading.Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    assert started.wait(20), "the server did not start"
    yield box["node"]
    box["token"].run_sync_soon(box["stop"].set)
    thread.join(20)
    assert not thread.is_alive(), "the server did not stop"


async def outcome(
    node: OwnNode, message: Message, version: int, listener: str = "CONTROLLER"
) -> int | None:
    """The first error of the answer, 0 without one; CLOSED."""
    assert message.API_KEY is not None
    async with await connect(node.ports[listener]) as client:
        await client.send(request(18, 0, b""))  # a first good request: only then may they be larger
        await client.answer(18, 0)
        await client.send(request(message.API_KEY, version, message.encode(version)))
        with trio.fail_after(5):
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


async def witness(node: OwnNode) -> None:
    """A client is served."""
    with trio.fail_after(2):
        answer = await node.ask(MetadataRequest(topics=None), 12)
        assert "__cluster_metadata" in [topic.name for topic in answer.topics]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_leader_says_no_and_stays_what_it_is(leader: OwnNode, row: Row) -> None:
    async def main() -> None:
        before, end = leader.state(), leader.raft.log.end_offset
        message = row.made(Asking(leader, CLUSTER_ID))
        version = NEWEST[message.API_KEY or 0] if row.version is None else row.version
        assert await outcome(leader, message, version) == row.error
        assert leader.state() == before
        assert leader.raft.log.end_offset >= end
        assert leader.raft.role == "leader" and leader.quorum.controller.is_active
        await witness(leader)

    run(main)


def test_nobody_gets_a_leaders_vote(leader: OwnNode) -> None:
    async def main() -> None:
        for version in range(3):
            made = Asking(leader, CLUSTER_ID).vote(
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


@pytest.mark.parametrize("key", [VOTE, BEGIN, END, FETCH_SNAPSHOT, ADD, REMOVE, UPDATE])
def test_36_on_the_listener_of_clients_it_is_the_end_of_the_connection(
    leader: OwnNode, key: int
) -> None:
    async def main() -> None:
        asking = Asking(leader, CLUSTER_ID)
        made: dict[int, Message] = {
            VOTE: asking.vote(),
            BEGIN: asking.begin(),
            END: asking.end_epoch(),
            FETCH_SNAPSHOT: asking.fetch_snapshot(),
            ADD: _add(asking, CLUSTER_ID),
            REMOVE: requests.remove_voter(CLUSTER_ID, 1, ZERO_UUID),
            UPDATE: requests.update_voter(CLUSTER_ID, leader.raft.epoch, VoterNode(1)),
        }
        before = leader.state()
        for version in range(NEWEST[key] + 1):
            assert await outcome(leader, _at(made[key], version), version, "PLAINTEXT") is CLOSED
        assert (leader.state(), sorted(leader.raft.voters.nodes)) == (before, [1])
        await witness(leader)

    run(main)


def _at(message: Message, version: int) -> Message:
    """Without what ``version`` has no place for: its defaults."""
    return type(message)() if version < NEWEST[message.API_KEY or 0] else message


def test_36_a_replica_that_fetches_where_clients_do_is_a_client(leader: OwnNode) -> None:
    async def main() -> None:
        followers = leader.raft.replicas
        await outcome(leader, Asking(leader, CLUSTER_ID).fetch(17, replica=55), 17, "PLAINTEXT")
        assert [one.id for one in leader.raft.replicas[1] if one.id == 55] == []
        assert len(leader.raft.replicas[0]) == len(followers[0])

    run(main)


def test_44_waiting_fetches_are_bounded_and_end_with_their_connection(
    leader: OwnNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_PARKED_MAX", 8)

    async def main() -> None:
        def wait_for_ever() -> Message:
            made: FetchRequest = Asking(leader, CLUSTER_ID).fetch(
                18, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1
            )
            end = leader.raft.log.end_offset
            return spoil(
                made,
                fetch_offset=end,
                last_fetched_epoch=leader.raft.log.last_epoch,
                high_watermark=end,
            )

        parked = lambda: len(leader.raft._node.role.parked)  # type: ignore[union-attr]  # noqa: E731
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
            await until(lambda: answered == 12)
            assert parked() == 8  # type: ignore[no-untyped-call]
            await witness(leader)
            nursery.cancel_scope.cancel()
        for client in clients:
            await trio.aclose_forcefully(client.stream)
        await until(lambda: parked() == 0)  # type: ignore[no-untyped-call]

    run(main)


def test_47_yesterdays_requests_change_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            yesterday = Asking(node, CLUSTER_ID)
            captured = [
                (yesterday.vote(), 2),
                (yesterday.begin(leader=1), 1),
                (yesterday.end_epoch(leader=1), 1),
                (yesterday.fetch(18), 18),
            ]
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            before = node.state()
            for message, version in captured * 2:
                assert await outcome(node, message, version) == FENCED
            assert node.state() == before

    run(main)


# --- votes that depose: a newer epoch is taken over, as Kafka does


def test_35_the_last_epoch_of_all_is_never_followed_by_a_negative_one(tmp_path: Path) -> None:
    """``epoch + 1`` of an int32: whoever is in the last epoch stays there, answers, and serves what
    is committed.
    """

    async def main() -> None:
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            await node.create("orders")
            shown = node.log.high_watermark
            vote = spoil(Asking(node, CLUSTER_ID).vote(), replica_epoch=EPOCH_MAX)
            assert await outcome(node, vote, 2) == 0
            await until(lambda: not node.quorum.controller.is_active)
            await trio.sleep(0.7)  # longer than an election timeout
            assert node.raft.epoch == EPOCH_MAX
            assert await outcome(node, vote, 2) == 0
            assert node.log.high_watermark == shown
            await witness(node)
            _check_quorum_state(tmp_path)
        async with own_node(lone_config(tmp_path)) as node:
            assert (node.raft.epoch, node.log.high_watermark) == (EPOCH_MAX, shown)
            await witness(node)

    run(main)


def _check_quorum_state(data_dir: Path) -> None:
    state = json.loads((data_dir / "__cluster_metadata-0" / "quorum-state").read_bytes())
    assert 0 <= state["leaderEpoch"] <= EPOCH_MAX


def test_a_stranger_that_votes_in_a_newer_epoch_costs_an_election_and_nothing_else(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            await node.create("orders")
            epoch = node.raft.epoch
            assert await outcome(node, Asking(node, CLUSTER_ID).vote(epoch=7), 2) == 0
            await until(lambda: node.raft.epoch > epoch + 6 and node.quorum.controller.is_active)
            assert await node.create("payments") == 0
            await until(lambda: node.topics == {"orders", "payments"})

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
    Row(40, "a vote in the same epoch", lambda a: a.vote(candidate=3, log_end=Position(10**6, a.epoch - 1)), 0),
    Row(42, "its leader of another cluster", lambda a: other_cluster(a.begin(leader=2)), ErrorCode.INCONSISTENT_CLUSTER_ID),
    Row(40, "its leader means another", lambda a: a.begin(leader=2, voter=VoterNode(3)), ErrorCode.INVALID_VOTER_KEY),
    Row(44, "somebody fetches", lambda a: a.fetch(18), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    Row(44, "somebody fetches a snapshot", lambda a: a.fetch_snapshot(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
]  # fmt: skip


def test_41_a_follower_has_one_leader_an_epoch_and_says_no_to_everything_else(
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
                    node, spoil(Asking(node, CLUSTER_ID).begin(leader=2), leader_epoch=5), 1
                )
                == 0
            )
            assert node.state()[:2] == (5, 2)
            before = node.state()
            for row in FOLLOWER_ROWS:
                message = row.made(Asking(node, CLUSTER_ID))
                assert (str(row), await outcome(node, message, NEWEST[message.API_KEY or 0])) == (
                    str(row),
                    row.error,
                )
                assert (str(row), node.state(), node.raft.role) == (str(row), before, "follower")
            await witness(node)

    run(main)


def test_46_observers_and_strangers_at_the_end_of_the_log_commit_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, controller_quorum_fetch_timeout_ms=20_000) as three:
            await three.start()
            leader = await three.leader()
            others = [node for node in three.nodes.values() if node is not leader]
            for node in others:
                await node.cut_off()
            committed = leader.raft.high_watermark
            assert await leader.create("alone", timeout_ms=100) == ErrorCode.REQUEST_TIMED_OUT
            await until(lambda: leader.raft.log.flushed > committed)
            end = Position(leader.raft.log.end_offset, leader.raft.log.last_epoch)
            asking = Asking(leader, CLUSTER_ID)
            ids = [-1, 0, 77, EPOCH_MAX, leader.raft.node_id]
            for id in ids:
                for version in (13, 15, 17, 18):
                    await outcome(leader, asking.fetch(version, replica=id, log_end=end), version)
            one_too_old = asking.fetch(18, replica=others[0].raft.node_id, log_end=end, epoch=-1)
            assert await outcome(leader, one_too_old, 18) == FENCED
            assert leader.raft.high_watermark == committed
            assert leader.log.high_watermark == committed

    run(main)
