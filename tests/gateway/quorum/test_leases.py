"""The time until which a second leader is unlikely (``Raft.leads_until``)."""

from __future__ import annotations

import math

from tests.gateway.quorum.world import World


def _leader_of_three() -> World:
    world = World()
    for id in (1, 2, 3):
        world.add(id, static=(1, 2, 3))
    for member in world.members.values():
        member.boot()
    world.run(3)
    return world


def test_a_leader_leads_a_fetch_timeout_after_a_majority_fetched() -> None:
    world = _leader_of_three()
    leader = next(member for member in world.up() if member.raft and member.raft.role == "leader")
    raft = leader.raft
    assert raft is not None
    assert (
        world.now + 1.4 < raft.leads_until <= world.now + 2.0
    )  # followers fetch at least every half second
    before = raft.leads_until
    world.cut = {(other, leader.id) for other in world.members if other != leader.id}
    world.run(0.9)
    assert raft.leads_until <= before + 0.5
    world.run(2.5)
    assert raft.role != "leader"
    assert raft.leads_until == -math.inf


def test_followers_lead_nothing_and_a_lone_voter_leads_for_ever() -> None:
    world = _leader_of_three()
    assert sum(member.raft.leads_until > -math.inf for member in world.up() if member.raft) == 1
    alone = World()
    alone.add(1, static=(1,)).boot()
    raft = alone.members[1].raft
    assert raft is not None and raft.leads_until == math.inf
    alone.run(3600)
    assert raft.leads_until == math.inf and raft.epoch == 1
