"""Votes and pre-votes by role (KIP-595, KIP-996), and the role after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.quorum.effects import ElectionState
from kwire.protocol import ErrorCode
from tests.gateway.quorum.election_world import (
    GRANTED,
    NOT_GRANTED,
    node,
    said,
    vote,
)
from tests.gateway.quorum.model_disk import directory


@pytest.mark.parametrize(
    ("state", "role", "epoch", "leader", "voted"),
    [
        (None, "unattached", 1, -1, -1),
        (ElectionState(1), "unattached", 1, -1, -1),
        (ElectionState(5), "unattached", 5, -1, -1),
        (ElectionState(0, 2, 3), "unattached", 1, -1, -1),  # the log knows more
        (ElectionState(5, 1), "resigned", 5, 1, -1),
        (ElectionState(5, 2), "follower", 5, 2, -1),
        (ElectionState(5, 2, 3), "follower", 5, 2, 3),
        (ElectionState(5, -1, 3), "unattached", 5, -1, 3),
        (ElectionState(5, -1, 1), "unattached", 5, -1, 1),
        (ElectionState(5, 9), "unattached", 5, 9, -1),  # its address is not known
    ],
)
def test_role_after_a_restart(
    state: ElectionState | None, role: str, epoch: int, leader: int, voted: int
) -> None:
    raft = node(state).members[1].raft
    assert raft is not None
    assert (raft.role, raft.epoch, raft.leader_id, raft.voted_id) == (role, epoch, leader, voted)


@pytest.mark.parametrize("pre", [False, True], ids=["vote", "pre-vote"])
@pytest.mark.parametrize(
    ("state", "same_epoch", "pre_vote"),
    [
        (ElectionState(5), GRANTED, GRANTED),
        (ElectionState(5, -1, 2, directory(2)), GRANTED, GRANTED),
        (ElectionState(5, -1, 3, directory(3)), NOT_GRANTED, GRANTED),
        (ElectionState(5, -1, 1, directory(1)), NOT_GRANTED, GRANTED),
        (ElectionState(5, 1), NOT_GRANTED, GRANTED),
        (ElectionState(5, 3), NOT_GRANTED, GRANTED),  # it has not heard its leader yet
        (ElectionState(5, 9), NOT_GRANTED, GRANTED),
    ],
    ids=[
        "unattached",
        "voted for it",
        "voted for another",
        "voted for itself",
        "resigned",
        "follower",
        "leader unreachable",
    ],
)
def test_votes_by_role(
    state: ElectionState, same_epoch: tuple[int, bool], pre_vote: tuple[int, bool], pre: bool
) -> None:
    assert said(vote(node(state), 5, pre=pre)) == (pre_vote if pre else same_epoch)
    # In a newer epoch every node has a vote again, and in an older one none has.
    assert said(vote(node(state), 6, pre=pre)) == GRANTED
    assert said(vote(node(state), 4, pre=pre)) == (ErrorCode.FENCED_LEADER_EPOCH, False)


@pytest.mark.parametrize(
    ("log", "granted"),
    [((1, 1), True), ((9, 1), True), ((0, 3), True), ((0, 1), False), ((9, 0), False)],
)
def test_only_a_log_at_least_as_up_to_date_gets_the_vote(
    log: tuple[int, int], granted: bool
) -> None:
    world = node(ElectionState(5))
    assert said(vote(world, 6, log=log)) == (ErrorCode.NONE, granted)
    raft = world.members[1].raft
    assert raft is not None and (raft.epoch, raft.voted_id) == (
        6,
        2 if granted else -1,
    )  # the epoch is taken over anyway


def test_a_vote_is_given_once_and_again_to_the_same() -> None:
    world = node(ElectionState(5))
    assert said(vote(world, 6, 2)) == said(vote(world, 6, 2)) == GRANTED
    assert said(vote(world, 6, 3)) == NOT_GRANTED
    disk = world.members[1].disk.state
    assert disk == ElectionState(6, -1, 2, directory(2))


@pytest.mark.parametrize("leader", [-1, 2, 9])
def test_a_granted_vote_is_repeated_although_a_leader_is_known(leader: int) -> None:
    """The second copy of a question may arrive after the candidate was elected, and after it was
    lost again.
    """
    world = node(ElectionState(5, leader, 3, directory(3)), voters=(1, 3, 4))
    asked = said(vote(world, 5, 3))
    raft = world.members[1].raft
    assert raft is not None and (raft.epoch, raft.leader_id, raft.voted_id) == (5, leader, 3)
    assert asked == GRANTED
    assert said(vote(world, 5, 4)) == NOT_GRANTED


def test_a_candidate_with_another_disk_is_another_one() -> None:
    world = node(ElectionState(5, -1, 2, directory(7)))
    assert said(vote(world, 5, 2)) == NOT_GRANTED


def test_a_pre_vote_changes_nothing_that_is_remembered() -> None:
    world = node(ElectionState(5))
    assert said(vote(world, 5, pre=True)) == GRANTED
    raft = world.members[1].raft
    assert raft is not None and (raft.epoch, raft.voted_id) == (5, -1)


@pytest.mark.parametrize(
    ("more", "top"),
    [
        ({"cluster_id": None}, 0),
        ({"cluster_id": "other"}, 104),
        ({"cluster_id": ""}, 104),
        ({"topics": []}, 42),
    ],
)
def test_votes_of_other_clusters(more: dict[str, Any], top: int) -> None:
    world = node(ElectionState(5))
    assert vote(world, 6, **more).error_code == top
    raft = world.members[1].raft
    assert raft is not None and raft.epoch == (5 if top else 6)


def test_a_vote_for_another_voter_key_is_refused() -> None:
    world = node(ElectionState(5))
    assert said(vote(world, 6, voter_id=3)) == (ErrorCode.INVALID_VOTER_KEY, False)
    assert said(vote(world, 6, voter_id=-1)) == GRANTED


@pytest.mark.parametrize("log", [(-1, 1), (1, -1), (1, 6), (1, 7)])
def test_votes_that_cannot_be(log: tuple[int, int]) -> None:
    world = node(ElectionState(5))
    assert said(vote(world, 6, log=log)) == (ErrorCode.INVALID_REQUEST, False)


def test_a_log_may_hold_the_epoch_of_a_pre_vote() -> None:
    assert said(vote(node(ElectionState(5)), 6, log=(1, 6), pre=True)) == GRANTED
