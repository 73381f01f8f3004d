"""Builds observers behind observers, and asks them, for tests of relays."""

from __future__ import annotations

from typing import Any

from gateway.quorum.events import Propose
from gateway.quorum.settings import ObserverSettings, RaftSettings
from tests.gateway.quorum.model_disk import CLUSTER, LISTENER, Disk, address, directory
from tests.gateway.quorum.serving_world import fetch, partition
from tests.gateway.quorum.world import Member, World

#: The replica id of an observer without an id.
NOBODY = -1


def observer(world: World, id: int, *bootstrap: int, **more: Any) -> Member:
    """A relay that is told of the nodes ``bootstrap``. As in the server it has no name for the
    listeners of other nodes, so the addresses in voters' records are of no use to it.
    """
    settings = RaftSettings(
        node_id=-1,
        directory_id=directory(id),
        cluster_id=more.pop("cluster_id", CLUSTER),
        listener="",
        endpoints={LISTENER: address(id)},
        bootstrap=tuple(map(address, bootstrap)),
        observer=ObserverSettings(**more),
    )
    member = world.members[id] = Member(world, id, settings, Disk())
    member.boot()
    return member


def write(world: World, leader: Member, count: int = 1) -> int:
    """Commit records at the leader; return the high watermark that it has then."""
    assert leader.raft is not None
    for number in range(count):
        leader.step(Propose(1000 + number, leader.raft.epoch, [[b"later %d" % number]]))
    world.settle()
    return leader.raft.high_watermark


def shown(member: Member) -> int:
    assert member.raft is not None
    return member.raft.high_watermark


def log_of(member: Member) -> list[bytes]:
    return [batch.data for batch in member.disk.batches]


def asks(world: World, relay: int, **more: Any) -> Any:
    """The partition of a relay's answer to an observer's Fetch."""
    return partition(world.request(relay, fetch(replica=NOBODY, **more), 18))


def answered_s_ago(world: World, member: Member) -> float:
    assert member.raft is not None and member.raft.leader_answered_at is not None
    return world.now - member.raft.leader_answered_at
