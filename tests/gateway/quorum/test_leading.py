"""A leader's appends and commits (``LeaderStateTest``, ``BatchAccumulatorTest``)."""

from __future__ import annotations

import pytest

from gateway.quorum import effects as fx
from gateway.quorum.events import Propose
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.records import decode_batches, decode_control_record
from tests.gateway.quorum.model_disk import WALL_MS
from tests.gateway.quorum.serving_world import fetch, leading
from tests.gateway.quorum.test_elections import leader_of, of
from tests.gateway.quorum.world import World


def test_the_first_record_of_an_epoch() -> None:
    _, leader = leading(1, 2, 3)
    batch = next(iter(decode_batches(leader.disk.batches[0].data)))
    header = batch.header
    assert (
        header.base_offset,
        header.partition_leader_epoch,
        header.is_control,
        header.record_count,
    ) == (0, 1, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    change = decode_control_record(batch.records[0])
    assert change.name == "LEADER_CHANGE"
    message = change.message
    assert isinstance(message, LeaderChangeMessage)
    assert (message.leader_id, message.version) == (1, 0)
    assert [voter.voter_id for voter in message.voters] == [1, 2, 3]
    granting = [voter.voter_id for voter in message.granting_voters]
    assert 1 in granting and len(granting) >= 2


def test_the_first_leader_of_a_dynamic_quorum_writes_down_the_voters() -> None:
    world = World()
    world.add(1, formatted=(1,)).boot()
    records = [
        decode_control_record(record)
        for batch in decode_batches(world.members[1].disk.batches[0].data)
        for record in batch.records
    ]
    assert [record.name for record in records] == ["LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS"]
    world.members[1].kill()
    world.members[1].boot()
    batch = next(iter(decode_batches(world.members[1].disk.batches[-1].data)))
    assert len(batch.records) == 1  # and no later one does
    raft = world.members[1].raft
    assert raft is not None and (raft.kraft_version, list(raft.voters.nodes)) == (1, [1])


def test_batches_of_records() -> None:
    world, leader = leading(1, proposals=0)
    world.now += 1.5
    leader.step(Propose(1, 1, [[b"a", b"b"], [b"c"]]))
    assert leader.outcome[1] == fx.Accepted(1, 1, 4)
    first, second = list(decode_batches(b"".join(batch.data for batch in leader.disk.batches[1:])))
    assert [record.value for record in first.records] == [
        b"a",
        b"b",
    ] and second.header.base_offset == 3
    header = first.header
    assert (
        header.attributes,
        header.partition_leader_epoch,
        header.producer_id,
        header.base_sequence,
    ) == (0, 1, -1, -1)
    assert (
        {record.timestamp for record in first.records} == {header.max_timestamp} == {WALL_MS + 1500}
    )
    assert all(record.key is None and not record.headers for record in first.records)


@pytest.mark.parametrize(
    ("epoch", "batches", "not_leader"),
    [
        (0, [[b"a"]], True),
        (2, [[b"a"]], True),
        (1, [], False),
        (1, [[]], False),
        (1, [[b"a"], []], False),
        (1, [[b"x" * 2000]], False),
    ],
)
def test_a_refused_proposal_appends_nothing(
    epoch: int, batches: list[list[bytes]], not_leader: bool
) -> None:
    """KAFKA-14996: one that is too large fails, and the leader stays."""
    world = World()
    member = world.add(1, static=(1,), batch_max_bytes=1000)
    member.boot()
    raft = member.raft
    assert raft is not None
    end = raft.log.end_offset
    member.step(Propose(1, epoch, batches))
    outcome = member.outcome[1]
    assert isinstance(outcome, fx.Refused) and outcome.not_leader == not_leader and outcome.reason
    assert (raft.log.end_offset, raft.role, raft.epoch) == (end, "leader", 1)


def test_one_batch_too_large_refuses_the_others_too() -> None:
    world = World()
    member = world.add(1, static=(1,), batch_max_bytes=1000)
    member.boot()
    member.step(Propose(1, 1, [[b"fits"], [b"x" * 2000]]))
    assert member.raft is not None and member.raft.log.end_offset == 1


def test_followers_append_nothing() -> None:
    world, _ = leading(1, 2, 3)
    follower = world.members[2]
    follower.step(Propose(1, 1, [[b"a"]]))
    assert follower.outcome[1] == fx.Refused(
        1, True, "this node does not lead epoch 1: node 1 leads epoch 1"
    )


@pytest.mark.parametrize(("size", "needed"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (7, 3)])
def test_a_majority_commits(size: int, needed: int) -> None:
    ids = tuple(range(1, size + 1))
    world, leader = leading(*ids, proposals=0)
    world.run(1)
    for id in ids[1:]:
        world.members[id].kill()
    leader.step(Propose(1, 1, [[b"a"]]))
    raft = leader.raft
    assert raft is not None
    for count, id in enumerate(ids[1:]):
        assert (raft.high_watermark == 2) == (count >= needed)
        world.request(1, fetch(offset=2, last=1, replica=id), 18)
    assert raft.high_watermark == 2


def test_a_high_watermark_does_not_fall_when_a_follower_does() -> None:
    """KAFKA-12181."""
    world, leader = leading(1, 2, 3)
    world.run(1)
    raft = leader.raft
    assert raft is not None and raft.high_watermark == 4
    for id in (2, 3):
        world.members[id].kill()
        world.request(1, fetch(offset=0, replica=id), 18)
    assert raft.high_watermark == 4
    assert {progress.offset for progress in raft.replicas[0]} == {0}


def test_only_what_is_durable_here_counts() -> None:
    _, leader = leading(1)
    leader.stuck = True
    leader.step(Propose(9, 1, [[b"a"]]))
    assert leader.raft is not None and leader.raft.high_watermark == 4
    leader.sync()
    assert leader.raft.high_watermark == 5


def test_commit_latency_and_counts() -> None:
    world, leader = leading(1, proposals=0)
    leader.stuck = True
    leader.step(Propose(1, 1, [[b"a", b"b"]]))
    world.now += 0.25
    leader.sync()
    assert leader.raft is not None
    measures = leader.raft.measures
    assert measures.commit.count == 2 and measures.commit.max_s == pytest.approx(0.25)
    assert measures.appended_records == 2 and measures.election.count == 1


def test_fetched_records_are_counted() -> None:
    world, _ = leading(1, 2, 3)
    assert world.members[2].raft is not None
    assert world.members[2].raft.measures.fetched_records == 4


def test_a_leader_paused_for_long_answers_nothing_as_one() -> None:
    """etcd#20418: what arrives in the moment it goes on is refused."""
    world, leader = leading(1, 2, 3)
    world.now += 10
    leader.step(Propose(99, 1, [[b"late"]]))
    assert isinstance(leader.outcome[99], fx.Refused) and leader.outcome[99].not_leader


def test_a_leader_cut_off_resigns_in_time() -> None:
    """KAFKA-15489: 1.5 fetch timeouts after a majority fetched last."""
    world = of(1, 2, 3)
    world.run(5)
    leader = leader_of(world)
    world.cut = {(other, leader.id) for other in world.members}
    world.run(2.4)
    assert leader.raft is not None and leader.raft.role == "leader"
    world.run(0.7)
    assert leader.raft.role == "resigned"


def test_one_follower_is_enough_of_three() -> None:
    world = of(1, 2, 3)
    world.run(5)
    leader = leader_of(world)
    other = next(id for id in world.members if id != leader.id)
    world.members[other].kill()
    world.run(60)
    assert leader.raft is not None and leader.raft.role == "leader"
