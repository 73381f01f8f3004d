"""Builds a leader and requests for tests of Fetch and FetchSnapshot."""

from __future__ import annotations

from typing import Any

from gateway.quorum import requests
from gateway.quorum.events import Propose
from gateway.quorum.partition import Position
from kwire.messages.fetch_request import FetchRequest
from tests.gateway.quorum.model_disk import CLUSTER, directory
from tests.gateway.quorum.world import Member, World
from tests.gateway.quorum.worldly import run_out


def leading(*voters: int, proposals: int = 3) -> tuple[World, Member]:
    """Node 1 leads ``voters``, of which only it has booted when there are more; so many records are
    proposed.
    """
    world = World()
    for id in voters:
        world.add(id, static=voters)
    for member in world.members.values():
        member.boot()
    leader = world.members[1]
    assert leader.raft is not None
    if len(voters) > 1:
        run_out(leader.raft, world.now)
        world.tick()
    for number in range(proposals):
        leader.step(Propose(number, leader.raft.epoch, [[b"record %d" % number]]))
    world.settle()
    assert leader.raft.role == "leader"
    return world, leader


def fetch(
    version: int = 18,
    *,
    epoch: int = 1,
    offset: int = 0,
    last: int = 0,
    replica: int = 9,
    **more: Any,
) -> FetchRequest:
    given: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "high_watermark": -1,
        "max_wait_ms": 0,
        "max_bytes": 1 << 20,
    } | more
    who = (replica, directory(max(replica, 0)))
    return requests.fetch(
        version, replica=who, epoch=epoch, log_end=Position(offset, last), **given
    )


def partition(answer: Any) -> Any:
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]
