"""A follower's use of its leader's responses: correct, wrong and late ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gateway.quorum import effects as fx
from gateway.quorum.effects import ElectionState, Failure, FailureKind
from gateway.quorum.events import Answered, Cleaned, Failed, Propose, SnapshotWritten, Tick
from kwire.message import Message
from kwire.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.quorum.batches import corrupted, data_batch, leader_change
from tests.gateway.quorum.model_disk import Disk, address
from tests.gateway.quorum.serving_world import leading
from tests.gateway.quorum.test_elections import leader_of
from tests.gateway.quorum.world import Member, World
from tests.gateway.quorum.worldly import run_out, take_snapshot


def _count_requests(
    asked: Counter[str], kind: str, sender: int, receiver: int, message: Message
) -> None:
    asked[message.NAME] += 1


class Lone:
    """A follower of node 2 in epoch 5, whose disk holds offsets 0 to 4 of epochs 1 and 3; the test
    is the rest of the world.
    """

    def __init__(self, *, hw: int = 2, **more: Any) -> None:
        self.world = World()
        self.world.send = self._sent  # type: ignore[method-assign]
        self.asked: list[fx.Send] = []
        self.member: Member = self.world.add(1, static=(1, 2, 3), **more)
        disk = self.member.disk
        disk.append(0, data_batch(0, 3, 1, 0).data + data_batch(3, 2, 3, 0).data)
        disk.state, disk.high_watermark = ElectionState(5, 2), hw
        self.member.boot()

    def _sent(self, member: Member, send: fx.Send) -> None:
        self.asked.append(send)

    @property
    def raft(self) -> Any:
        return self.member.raft

    def last(self) -> Any:
        return self.asked[-1].request(self.asked[-1].versions[-1])

    def answer(self, message: Message, after_s: float = 0.4) -> None:
        self.world.now += after_s
        self.member.step(Answered(self.asked[-1].number, message, self.asked[-1].versions[-1]))


def fetched(
    *,
    error: int = 0,
    leader: int = 2,
    epoch: int = 5,
    hw: int = 5,
    records: bytes = b"",
    **more: Any,
) -> FetchResponse:
    partition = PartitionData(
        error_code=error,
        high_watermark=hw,
        log_start_offset=0,
        current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        records=records,
        **more,
    )
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])]
    )


BATCH = leader_change(5, 5, 2, (1, 2, 3)).data


def test_requests_of_a_follower() -> None:
    lone = Lone()
    send, request = lone.asked[-1], lone.last()
    assert (send.node_id, send.address) == (2, address(2))
    partition = request.topics[0].partitions[0]
    assert (
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
    ) == (5, 5, 3)
    assert (request.replica_state.replica_id, request.max_wait_ms, request.max_bytes) == (
        1,
        500,
        1 << 20,
    )


def test_records_are_appended_and_acknowledged_when_durable() -> None:
    """KAFKA-10533: the next Fetch names its offset, and leaves after the append."""
    lone = Lone()
    lone.member.stuck = True
    before = len(lone.asked)
    lone.answer(fetched(records=BATCH, hw=6))
    assert len(lone.asked) == before  # it waits for the disk
    assert (lone.raft.log.end_offset, lone.raft.log.flushed, lone.raft.high_watermark) == (6, 5, 5)
    lone.member.sync()
    assert lone.last().topics[0].partitions[0].fetch_offset == 6
    assert lone.raft.high_watermark == 6


@pytest.mark.parametrize(
    "records",
    [
        corrupted(BATCH),
        data_batch(6, 1, 5, 0).data,  # a gap
        data_batch(4, 1, 5, 0).data,  # again
        data_batch(5, 1, 2, 0).data,  # an epoch before our last
        data_batch(5, 1, 6, 0).data,  # one after the leader's
        BATCH[:-1],
        b"no batch at all, but long enough to be one",
        BATCH + corrupted(data_batch(6, 1, 5, 0).data),
    ],
    ids=["crc", "gap", "again", "old epoch", "new epoch", "cut off", "noise", "second one corrupt"],
)
def test_bad_records_are_not_appended(records: bytes) -> None:
    """KAFKA-18723."""
    lone = Lone()
    lone.answer(fetched(records=records))
    assert (lone.raft.log.end_offset, lone.raft.role, lone.raft.measures.protocol_violations) == (
        5,
        "follower",
        1,
    )
    assert 0 < lone.raft.deadline - lone.world.now <= 0.03  # and it asks again, after a rest
    rests = []
    for _ in range(6):
        lone.world.now = lone.raft.deadline
        lone.member.step(Tick())
        lone.answer(fetched(records=records), after_s=0.0)
        rests.append(lone.raft.deadline - lone.world.now)
    assert rests == sorted(rests) and rests[-1] > 0.2


@pytest.mark.parametrize("position", range(0, len(BATCH), 7))
def test_every_flipped_byte_is_found(position: int) -> None:
    flipped = bytearray(BATCH)
    flipped[position] ^= 0x10
    lone = Lone()
    lone.answer(fetched(records=bytes(flipped)))
    assert lone.raft.log.end_offset == 5
    lone = Lone()
    lone.answer(fetched(records=BATCH))
    assert lone.raft.log.end_offset == 6


ANSWERS: list[tuple[str, Callable[[], Message]]] = [
    ("no topics", lambda: FetchResponse()),
    ("an error as a whole", lambda: FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)),
    (
        "another topic",
        lambda: FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])]),
    ),
    ("not leader, naming itself", lambda: fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    ("not available", lambda: fetched(error=ErrorCode.BROKER_NOT_AVAILABLE)),
    ("it is behind", lambda: fetched(error=ErrorCode.UNKNOWN_LEADER_EPOCH, epoch=4)),
    ("an older epoch without error", lambda: fetched(epoch=4, records=BATCH)),
    ("an unknown error", lambda: fetched(error=1234)),
    ("another leader of this epoch", lambda: fetched(leader=3)),
    ("we lead", lambda: fetched(leader=1)),
    ("we lead the next", lambda: fetched(leader=1, epoch=6)),
    ("a negative epoch", lambda: fetched(epoch=-7)),
    ("a negative leader", lambda: fetched(leader=-7, epoch=6)),
    ("half a divergence", lambda: fetched(diverging_epoch=EpochEndOffset(epoch=3, end_offset=-1))),
    (
        "a divergence in an epoch that the local log has not",
        lambda: fetched(diverging_epoch=EpochEndOffset(epoch=4, end_offset=9)),
    ),
    (
        "a divergence that is none",
        lambda: fetched(diverging_epoch=EpochEndOffset(epoch=3, end_offset=9)),
    ),
    ("the snapshot of formatting", lambda: fetched(snapshot_id=SnapshotId(end_offset=0, epoch=0))),
    ("a snapshot of a later epoch", lambda: fetched(snapshot_id=SnapshotId(end_offset=9, epoch=6))),
    ("the snapshot where we are", lambda: fetched(snapshot_id=SnapshotId(end_offset=5, epoch=3))),
]


@pytest.mark.parametrize("make", [make for _, make in ANSWERS], ids=[name for name, _ in ANSWERS])
def test_answers_of_no_use_cost_a_rest_and_nothing_else(make: Callable[[], Message]) -> None:
    lone = Lone()
    before = len(lone.asked)
    lone.answer(make())
    raft = lone.raft
    assert (raft.role, raft.epoch, raft.leader_id) == ("follower", 5, 2)
    assert (raft.log.end_offset, raft.high_watermark, lone.member.stopped) == (5, 2, None)
    assert len(lone.asked) == before and raft.deadline > lone.world.now


def test_the_next_epoch_and_its_leader() -> None:
    lone = Lone()
    answer = fetched(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=6, leader=3)
    answer.node_endpoints = [NodeEndpoint(node_id=3, host="elsewhere", port=1)]
    lone.answer(answer)
    assert (lone.raft.epoch, lone.raft.leader_id, lone.raft.role) == (6, 3, "follower")
    assert lone.asked[-1].address == address(3)  # what is configured beats what is told
    assert lone.member.disk.state == ElectionState(6, 3)


def test_a_leader_without_a_known_address_is_not_followed() -> None:
    lone = Lone()
    lone.answer(fetched(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=6, leader=8))
    assert (lone.raft.epoch, lone.raft.leader_id, lone.raft.role) == (6, 8, "unattached")


def test_records_of_a_leader_in_another_epoch_are_not_used() -> None:
    lone = Lone()
    lone.answer(fetched(epoch=6, leader=2, records=BATCH))
    assert (lone.raft.epoch, lone.raft.log.end_offset) == (6, 5)


def test_late_and_second_responses_are_discarded() -> None:
    """They may fit where they do not belong: the experiment of the notes found both."""
    lone = Lone()
    first = lone.asked[-1].number
    lone.answer(fetched(records=BATCH, hw=5))
    lone.member.step(Answered(first, fetched(records=BATCH, hw=5), 18))
    lone.member.step(
        Answered(first, fetched(diverging_epoch=EpochEndOffset(epoch=3, end_offset=4)), 18)
    )
    lone.member.step(Failed(first, Failure(FailureKind.CLOSED, "late")))
    assert lone.raft.log.end_offset == 6


def test_divergence_above_and_below_what_is_committed() -> None:
    lone = Lone(hw=3)
    lone.answer(fetched(diverging_epoch=EpochEndOffset(epoch=1, end_offset=3)))
    assert (lone.raft.log.end_offset, lone.raft.role) == (3, "follower")
    lone = Lone(hw=4)
    lone.answer(fetched(diverging_epoch=EpochEndOffset(epoch=1, end_offset=3)))
    assert lone.member.stopped is not None and "Nothing was cut" in lone.member.stopped
    assert (
        lone.raft.log.end_offset == 5
        and lone.raft.step(Tick(), 1e9, 0) == []
        and lone.raft.deadline == float("inf")
    )


def test_empty_answers_that_come_too_early_are_not_asked_for_at_once() -> None:
    lone = Lone()
    lone.answer(fetched(), after_s=0.001)  # the high watermark is news
    rests = []
    for _ in range(5):
        lone.answer(fetched(), after_s=0.001)
        rests.append(lone.raft.deadline - lone.world.now)
        lone.world.now = lone.raft.deadline
        lone.member.step(Tick())
    assert min(rests) > 0.005 and rests[-1] > 0.1
    lone.answer(fetched(), after_s=0.5)
    assert lone.asked[-1].number in lone.raft._node.peers._asked  # this one took its time


# --- snapshots ---


def _away() -> tuple[World, Member]:
    """Node 1 leads and has only a snapshot of its log; node 3 has nothing and is down."""
    world, leader = leading(1, 2, 3)
    world.members[3].kill()
    world.members[3].disk = Disk()
    leader.step(Propose(50, 1, [[b"x" * 500]]))
    world.settle()
    id = take_snapshot(leader, 5)
    leader.step(SnapshotWritten(id))
    leader.step(Cleaned(5, (id,)))
    leader.step(Propose(51, 1, [[b"after"]]))
    world.settle()
    return world, leader


def test_a_snapshot_and_what_follows() -> None:
    world, leader = _away()
    world.members[3].boot()
    world.run(2)
    raft = world.members[3].raft
    assert raft is not None and leader.raft is not None
    assert (raft.log.start_offset, raft.log.end_offset, raft.high_watermark) == (5, 6, 6)
    assert raft.log.snapshots == leader.raft.log.snapshots


def test_a_snapshot_in_many_pieces() -> None:
    world, _ = _away()
    old = world.members[3]
    settings = {field: getattr(old.settings, field) for field in old.settings.__slots__} | {
        "snapshot_max_bytes": 10
    }
    old.settings = type(old.settings)(**settings)
    old.boot()
    world.run(2)
    assert old.raft is not None and old.raft.log.start_offset == 5


def test_a_follower_does_not_stand_while_a_snapshot_is_put_in_place() -> None:
    world, _ = _away()
    member = world.members[3]
    member.boot()
    member.stuck = True  # the disk takes the pieces, and does not finish
    for _ in range(30):
        world.run(0.1)
        if any(isinstance(effect, fx.InstallSnapshot) for id, effect in world.seen if id == 3):
            break
        if member.disk.pending and not any(
            isinstance(e, fx.InstallSnapshot) for id, e in world.seen if id == 3
        ):
            member.sync()
    raft = member.raft
    assert raft is not None and raft._node.installing is not None
    for id in (1, 2):
        world.members[id].kill()
    world.run(20)
    assert raft.role == "follower" and raft.log.end_offset == 0
    member.stuck = False
    member.sync()
    world.run(5)
    assert raft.log.start_offset == 5


def test_a_leader_that_refuses_its_own_snapshot_is_asked_for_the_log_again() -> None:
    world, _ = _away()
    refused: list[Message] = []

    def edit(requester: int, answer: Message) -> Message:
        if answer.NAME == "FetchSnapshotResponse" and len(refused) < 3:
            refused.append(answer)
            return FetchSnapshotResponse(
                error_code=-1
            )  # as Kafka does, which cannot say it otherwise
        return answer

    world.edit = edit
    world.members[3].boot()
    world.run(3)
    raft = world.members[3].raft
    assert len(refused) == 3 and raft is not None and raft.log.end_offset == 6


def test_an_observer_follows_and_finds_the_next_leader() -> None:
    world, leader = leading(1, 2, 3)
    world.add(7, static=(1, 2, 3)).boot()
    world.run(1)
    raft = world.members[7].raft
    assert raft is not None and (raft.role, raft.high_watermark, raft.is_voter) == (
        "follower",
        4,
        False,
    )
    leader.kill()
    world.run(8)
    assert raft.epoch == 2 and raft.leader_id in (2, 3) and raft.high_watermark == 5


def test_a_response_to_a_fetch_before_a_lost_pre_vote_counts() -> None:
    """The Fetch is answered after the node follows the same leader again. A fetch timeout shorter
    than the wait of a Fetch would otherwise make every response late, and every timeout a pre-vote.
    """
    world = World()
    for id in range(1, 6):
        world.add(id, static=range(1, 6), election_timeout_s=0.15, fetch_timeout_s=0.6).boot()
    world.run(4)
    leader = leader_of(world)
    for follower in [member for member in world.up() if member is not leader]:
        raft, asked = follower.raft, Counter[str]()
        assert raft is not None and raft.role == "follower"
        run_out(raft, world.now)
        world.spy = partial(_count_requests, asked)
        follower.step(Tick())
        world.run(20)
        assert asked["VoteRequest"] in (3, 6), (
            "it asks the three that do not lead, once, and once more at most"
        )
        assert raft.leader_id == leader.id and raft.role == "follower"
