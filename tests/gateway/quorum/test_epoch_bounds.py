"""Epochs that peers name: which a node believes, and how one returns from an epoch out of reach."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.base.leader_epochs import OUT_OF_REACH
from gateway.quorum import requests
from gateway.quorum.effects import ElectionState
from gateway.quorum.epoch_bounds import REQUESTED_MAX
from gateway.quorum.partition import Position
from kwire.message import Message
from kwire.messages import begin_quorum_epoch_request as begin
from kwire.messages import end_quorum_epoch_request as end
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from tests.gateway.quorum.election_world import GRANTED, node, said, vote
from tests.gateway.quorum.model_disk import CLUSTER, directory, voter_node
from tests.gateway.quorum.test_elections import leader_of, of
from tests.gateway.quorum.world import World

EPOCH_MAX = (1 << 31) - 1
UNKNOWN = 77
KINDS = ("vote", "pre-vote", "begin", "end")


def request(kind: str, to: int, sender: int, epoch: int) -> tuple[Message, int]:
    """A request of ``sender`` in ``epoch``, with a log that is longer than any, and its version."""
    if kind == "begin":
        began = begin.PartitionData(partition_index=0, leader_id=sender, leader_epoch=epoch)
        topic = begin.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[began])
        return begin.BeginQuorumEpochRequest(cluster_id=CLUSTER, topics=[topic]), 1
    if kind == "end":
        ended = end.PartitionData(partition_index=0, leader_id=sender, leader_epoch=epoch)
        one = end.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[ended])
        return end.EndQuorumEpochRequest(cluster_id=CLUSTER, topics=[one]), 1
    asked = requests.vote(
        2,
        cluster_id=CLUSTER,
        epoch=epoch,
        candidate=(sender, directory(sender)),
        voter=voter_node(to),
        log_end=Position(10_000, epoch - 1),
        pre_vote=kind == "pre-vote",
    )
    return asked, 2


def send(world: World, kind: str, to: int, sender: int, epoch: int) -> int:
    """Send a request; return the error of its response."""
    answers: list[Any] = []
    message, version = request(kind, to, sender, epoch)
    world.request(to, message, version, answers.append)
    world.settle()
    return int(answers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epoch", [REQUESTED_MAX + 10, 1 << 24, EPOCH_MAX])
def test_request_of_an_epoch_out_of_reach_raises_no_epoch(kind: str, epoch: int) -> None:
    world = of(1, 2, 3)
    world.run(6)
    leader = leader_of(world)
    assert leader.raft is not None
    before = leader.raft.epoch
    for member in world.up():
        for sender in (*(id for id in (1, 2, 3) if id != member.id), UNKNOWN):
            assert send(world, kind, member.id, sender, epoch) == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert any(f"named={epoch}, proven={before}" in line for line in member.told)
    world.run(6)
    assert leader_of(world) is leader
    assert {member.raft.epoch for member in world.up() if member.raft} == {before}


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_id_raises_nothing_in_a_static_quorum_and_a_voter_does(kind: str) -> None:
    for sender, raised in ((UNKNOWN, False), (2, True)):
        world = node(ElectionState(1))
        raft = world.members[1].raft
        assert raft is not None
        send(world, kind, 1, sender, 5)
        assert raft.epoch == (5 if raised else 1)


def dynamic(*ids: int) -> World:
    """A quorum whose voters are in its log."""
    world = World()
    for id in ids:
        world.add(id, formatted=ids)
    for member in world.members.values():
        member.boot()
    world.run(6)
    return world


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_id_raises_the_epoch_of_a_dynamic_quorum(kind: str) -> None:
    """It may be a voter by a record that the node does not have (KIP-853)."""
    world = dynamic(1, 2, 3)
    leader = leader_of(world)
    assert leader.raft is not None
    before = leader.raft.epoch
    follower = next(member for member in world.up() if member is not leader)
    send(world, kind, follower.id, UNKNOWN, before + 3)
    assert follower.raft is not None and follower.raft.epoch == before + 3
    world.run(10)
    assert leader_of(world).raft is not None
    assert len({member.raft.epoch for member in world.up() if member.raft}) == 1


def test_next_epoch_is_believed_however_far_the_log_is_behind() -> None:
    world = node(ElectionState(REQUESTED_MAX * 3))
    assert said(vote(world, REQUESTED_MAX * 3 + 1)) == GRANTED


@pytest.mark.parametrize(("distance", "believed"), [(1 << 20, True), (OUT_OF_REACH + 9, False)])
def test_voter_that_was_away_learns_a_far_epoch_from_the_responses_of_its_peers(
    distance: int, believed: bool
) -> None:
    world = of(1, 2, 3)
    world.run(6)
    away = leader_of(world)
    away.kill()
    others = [member for member in world.members.values() if member is not away]
    for member in others:
        state = member.disk.state
        assert state is not None
        member.kill()
        member.disk.state = ElectionState(state.epoch + distance)
        if believed:
            member.boot()
    if not believed:
        others[0].boot()
        raft = others[0].raft
        assert raft is not None and raft.epoch == OUT_OF_REACH // 2 + 1
        others[1].boot()
    away.boot()
    world.run(12)
    epochs = {member.raft.epoch for member in world.up() if member.raft}
    assert leader_of(world).raft is not None and len(epochs) == 1
    assert max(epochs) < OUT_OF_REACH + 2


def test_quorum_whose_nodes_all_stored_the_last_epoch_elects_a_leader() -> None:
    world = of(1, 2, 3)
    world.run(6)
    for member in world.members.values():
        member.kill()
        member.disk.state = ElectionState(EPOCH_MAX)
    for member in world.members.values():
        member.boot()
        assert any("quorum-state" in line for line in member.told)
    world.run(12)
    leader = leader_of(world).raft
    assert leader is not None and OUT_OF_REACH // 2 < leader.epoch < OUT_OF_REACH
    assert all(member.raft and member.raft.epoch == leader.epoch for member in world.up())
