"""Every role, followed by every role: a node enters those that the table lists, and no other."""

from __future__ import annotations

import itertools
import math

import pytest

from gateway.quorum.effects import ElectionState
from gateway.quorum.role_table import TRANSITIONS
from gateway.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from tests.gateway.quorum.world import World

ROLES: dict[type[Role], Role] = {
    type(role): role
    for role in (
        Unattached(math.inf),
        Follower(2, {}, 0.0, 1.0),
        Prospective({}, 0.0, 0),
        Candidate({}, 0.0, 0),
        Leader(1, 0, 0.0, {}, 0.0, 0.0),
        Resigned(math.inf, set()),
    )
}


def test_table_has_a_row_for_every_role() -> None:
    assert TRANSITIONS.keys() == ROLES.keys()


def test_every_role_can_be_entered_and_left() -> None:
    entered = {after for following in TRANSITIONS.values() for after in following}
    assert entered == ROLES.keys()
    assert all(TRANSITIONS.values())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1].__name__}")
        for pair in itertools.product(ROLES, ROLES)
    ],
)
def test_node_enters_a_role_if_and_only_if_the_table_lists_it(
    before: type[Role], after: type[Role]
) -> None:
    world = World()
    world.add(1, static=(1, 2, 3)).boot()
    raft = world.members[1].raft
    assert raft is not None
    node = raft._node
    node.role, state = ROLES[before], ElectionState(node.epoch)
    if after in TRANSITIONS[before]:
        node.enter(ROLES[after], state)
        assert node.role is ROLES[after]
    else:
        with pytest.raises(AssertionError, match=f"{after.__name__} after {before.__name__}"):
            node.enter(ROLES[after], state)
