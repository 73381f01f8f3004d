"""Campaigns: quorums of every size, split votes, resignation and shutdown."""

from __future__ import annotations

import random
from typing import Any, TypeGuard

import pytest

from gateway.quorum import requests
from gateway.quorum.effects import ElectionState, Failure, FailureKind, Send
from gateway.quorum.events import Failed, ImageLacks, Resign, ShutDown, Tick
from gateway.quorum.partition import Position
from kwire.protocol import ErrorCode
from tests.gateway.quorum.election_world import (
    GRANTED,
    NOT_GRANTED,
    node,
    said,
    vote,
)
from tests.gateway.quorum.model_disk import CLUSTER, LISTENER, address, directory, voter_node
from tests.gateway.quorum.world import Member, World
from tests.gateway.quorum.worldly import run_out

# --- standing for election ---


def of(*ids: int, random: Any = None, **more: Any) -> World:
    world = World(random)
    for id in ids:
        world.add(id, static=ids, **more)
    for member in world.members.values():
        member.boot()
    return world


def leader_of(world: World) -> Member:
    found = [member for member in world.up() if member.raft and member.raft.role == "leader"]
    return max(found, key=lambda member: member.raft.epoch if member.raft else 0)


@pytest.mark.parametrize("size", range(1, 8))
def test_every_size_elects_one_leader(size: int) -> None:
    world = of(*range(1, size + 1))
    world.run(6)
    leader = leader_of(world).raft
    assert leader is not None
    assert all(
        member.raft and (member.raft.epoch, member.raft.leader_id) == (leader.epoch, leader.node_id)
        for member in world.up()
    )


@pytest.mark.parametrize("size", range(2, 8))
def test_a_clean_shutdown_takes_one_election_whatever_the_size(size: int) -> None:
    """KAFKA-20895: the preferred successor wins in the first round, and no other node campaigns."""
    world = of(*range(1, size + 1))
    world.run(6)
    old = leader_of(world)
    assert old.raft is not None
    epoch = old.raft.epoch
    old.step(ShutDown(10.0))
    world.run(0.1)
    assert old.done
    new = leader_of(world)
    assert new is not old
    assert new.raft is not None and new.raft.epoch == epoch + 1


@pytest.mark.parametrize("seed", range(40))
def test_five_nodes_that_campaign_in_step_agree_soon(seed: int) -> None:
    """KAFKA-18345: rivals whose rests grow to the same cap must not meet for ever."""
    rng = random.Random(seed)
    world = of(1, 2, 3, 4, 5, random=lambda id: rng.random)
    world.settle()
    for member in world.members.values():
        assert member.raft is not None
        run_out(member.raft, world.now)
    for _ in range(2):
        world.tick()
    world.run(6.0)
    assert leader_of(world)


def test_a_lone_voter_stays_leader_without_fetches() -> None:
    """KAFKA-16144."""
    world = of(1)
    world.run(3600)
    raft = world.members[1].raft
    assert raft is not None and (raft.role, raft.epoch) == ("leader", 1)


def test_an_idle_quorum_is_quiet() -> None:
    """KAFKA-17751, 19605: a timer that is never reset."""
    world = of(1, 2, 3)
    world.run(5)
    before = len(world.seen)
    world.run(60)
    assert (
        len(world.seen) - before
    ) / 60 < 20  # two fetches a second and follower, each with its answer


def test_a_leader_resigns_for_its_controller() -> None:
    world = of(1, 2, 3)
    world.run(5)
    old = leader_of(world)
    assert old.raft is not None
    old.step(Resign(old.raft.epoch, "it cannot go on"))
    world.run(3)
    assert leader_of(world) is not old


def test_a_node_that_shuts_down_grants_votes_and_does_not_campaign() -> None:
    world = of(1, 2, 3)
    world.run(5)
    old = leader_of(world)
    others = [id for id in world.members if id != old.id]
    for id in others:
        world.members[id].kill()
    old.step(ShutDown(30.0))
    world.run(20)
    assert old.raft is not None and old.raft.role in ("resigned", "unattached") and not old.done
    world.members[others[0]].boot()
    world.run(1)
    assert old.done and leader_of(world).id == others[0]


def test_an_observer_never_campaigns() -> None:
    world = node(ElectionState(5), voters=(2, 3))
    world.run(60)
    raft = world.members[1].raft
    assert raft is not None and (raft.role, raft.epoch, raft.is_voter) == ("unattached", 5, False)


def test_a_non_electable_voter_votes_and_never_campaigns() -> None:
    world = node(ElectionState(5), campaigns=False)
    world.run(60)
    raft = world.members[1].raft
    assert raft is not None and (raft.role, raft.epoch) == ("unattached", 5)
    assert said(vote(world, 6)) == GRANTED


def test_a_follower_that_hears_its_leader_refuses_pre_votes_until_that_is_silent() -> None:
    world = of(1, 2, 3)
    world.run(5)
    leader = leader_of(world)
    follower = next(member for member in world.up() if member is not leader and member.raft)
    assert follower.raft is not None and leader.raft is not None
    third = 6 - leader.id - follower.id
    request = requests.vote(
        2,
        cluster_id=CLUSTER,
        epoch=leader.raft.epoch,
        candidate=(third, directory(third)),
        voter=voter_node(follower.id),
        log_end=Position(99, leader.raft.epoch),
        pre_vote=True,
    )
    assert said(world.request(follower.id, request, 2)) == NOT_GRANTED
    run_out(follower.raft, world.now)
    assert said(world.request(follower.id, request, 2)) == GRANTED


def test_follower_that_alone_is_refused_disturbs_no_leader() -> None:
    world = of(1, 2, 3)
    world.run(5)
    leader = leader_of(world)
    follower = next(member for member in world.up() if member is not leader)
    assert follower.raft is not None and leader.raft is not None
    epoch, campaigns = leader.raft.epoch, 0
    for _ in range(20):
        fetches = [one for one in follower.sends.values() if one.address == address(leader.id)]
        for fetch in fetches:
            del follower.sends[fetch.number]
            follower.step(Failed(fetch.number, Failure(FailureKind.REFUSED, "refused")))
        follower.step(Tick())
        campaigns += follower.raft.role == "prospective"
        world.run(0.3)
        assert (leader.raft.role, leader.raft.epoch) == ("leader", epoch)
    assert campaigns > 0, "it asked for pre-votes, and got none"
    world.run(3)
    assert (follower.raft.role, follower.raft.leader_id) == ("follower", leader.id)


def is_vote(effect: Any) -> TypeGuard[Send]:
    return isinstance(effect, Send) and effect.api_key == 52


def replica_epoch(vote: Send) -> int:
    request: Any = vote.request(2)
    return int(request.topics[0].partitions[0].replica_epoch)


def test_begin_and_end_of_an_epoch() -> None:
    world = node(ElectionState(5))
    begin = requests.begin_quorum_epoch(
        1,
        cluster_id=CLUSTER,
        epoch=6,
        leader_id=2,
        voter=voter_node(1),
        endpoints={LISTENER: address(2)},
    )
    answers: list[Any] = []
    world.request(1, begin, 1, answers.append)
    raft = world.members[1].raft
    assert raft is not None and (raft.role, raft.epoch, raft.leader_id) == ("follower", 6, 2)
    for successors, within in (
        ([(1, directory(1)), (3, directory(3))], 0.0),
        ([(3, directory(3)), (1, directory(1))], 0.6),
    ):
        world = node(ElectionState(6, 2))
        end = requests.end_quorum_epoch(
            1,
            cluster_id=CLUSTER,
            epoch=6,
            leader_id=2,
            successors=successors,
            endpoints={LISTENER: address(2)},
        )
        before = len(world.seen)
        world.request(1, end, 1, answers.append)
        world.run(within)
        asked_for = {replica_epoch(effect) for _, effect in world.seen[before:] if is_vote(effect)}
        assert asked_for == ({7} if not within else {6})  # the first choice needs no pre-vote
    assert [answer.topics[0].partitions[0].error_code for answer in answers] == [0, 0, 0]


def test_begin_of_an_older_epoch_or_for_another_voter_is_refused() -> None:
    world = node(ElectionState(5))
    for epoch, voter, error in (
        (4, 1, ErrorCode.FENCED_LEADER_EPOCH),
        (5, 3, ErrorCode.INVALID_VOTER_KEY),
    ):
        begin = requests.begin_quorum_epoch(
            1, cluster_id=CLUSTER, epoch=epoch, leader_id=2, voter=voter_node(voter), endpoints={}
        )
        answers: list[Any] = []
        world.request(1, begin, 1, answers.append)
        world.settle()
        assert answers[0].topics[0].partitions[0].error_code == error


# --- images that are not whole ---


def test_leader_whose_image_lacks_a_record_resigns_and_another_node_leads() -> None:
    world = of(1, 2, 3)
    world.run(6)
    old = leader_of(world)
    old.step(ImageLacks("a record"))
    assert old.raft is not None and old.raft.role == "resigned" and old.leads is None
    world.run(6)
    assert leader_of(world) is not old
    # Nor does it campaign when the others are gone.
    for id in (2, 3) if old.id == 1 else (1, 2) if old.id == 3 else (1, 3):
        world.members[id].kill()
    epoch = old.raft.epoch
    world.run(30)
    assert (old.raft.role, old.raft.epoch) == ("follower", epoch)


@pytest.mark.parametrize("whole_again", [True, False])
def test_lone_voter_whose_image_lacks_a_record_leads_only_when_it_is_whole(
    whole_again: bool,
) -> None:
    world = of(1)
    world.settle()
    [member] = world.up()
    member.step(ImageLacks("a record"))
    world.run(30)
    assert member.raft is not None and member.raft.role == "unattached"
    if whole_again:
        member.step(ImageLacks(None))
        world.run(6)
    assert (member.raft.role == "leader") == whole_again


@pytest.mark.parametrize("role", ["prospective", "candidate"])
def test_nominee_whose_image_lacks_a_record_gives_up(role: str) -> None:
    world = node(ElectionState(1))
    member = world.members[1]
    assert member.raft is not None
    run_out(member.raft, world.now)
    member.step(Tick())
    if role == "candidate":
        world.run(0.0)
        member.raft._election._become_candidate(0)
    assert member.raft.role == role
    member.step(ImageLacks("a record"))
    assert member.raft.role == "unattached"


def test_node_whose_image_lacks_a_record_still_votes() -> None:
    world = node(ElectionState(1))
    world.members[1].step(ImageLacks("a record"))
    assert said(vote(world, 2)) == GRANTED
