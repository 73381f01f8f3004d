"""Builds the nodes of a schedule: voters, observers, relays, and perhaps a node of another
cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gateway.base.address import Address
from gateway.quorum.settings import ObserverSettings, RaftSettings
from gateway.quorum.voter_set import VoterNode, VoterSet
from tests.sim import wire
from tests.sim.disk import Disk
from tests.sim.node import Node

if TYPE_CHECKING:
    from kwire.uuid import Uuid
    from tests.sim.world import World

CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
OTHER_CLUSTER_ID: Final = "BBBBBBBBBBBBBBBBBBBBBB"
LISTENER: Final = "CONTROLLER"
OBSERVER_IDS: Final = 101
RELAY_IDS: Final = 201
FOREIGN_ID: Final = 901


def address_of(id: int) -> Address:
    """The address of a node, which all its incarnations keep."""
    return Address(f"node{id}", 9000 + id % 1000)


def first_voters(world: World) -> VoterSet:
    """The voters with which the quorum begins, each with a new directory."""
    return VoterSet.of(
        VoterNode(id, world.new_directory(id), {LISTENER: address_of(id)}, (0, 1))
        for id in range(1, world.shape.voters + 1)
    )


def build(world: World) -> None:
    """Add the nodes that ``world.shape`` asks for, and draw the versions that they support."""
    shape, random = world.shape, world.random
    world.network.codec = shape.codec
    non_electable = random.sample(
        range(1, shape.voters + 1), min(shape.non_electable, (shape.voters - 1) // 2)
    )
    if shape.old_versions:
        for key, known in wire.NEWEST.items():
            oldest = known[0]
            if shape.dynamic or shape.upgrades:
                oldest = wire.WITH_DIRECTORIES.get(key, known[0])
            world.network.versions[key] = range(known[0], random.randint(oldest, known[-1]) + 1)
    for voter in world.first_voters:
        campaigns = voter.id not in non_electable
        _add(world, voter.id, voter.directory_id, campaigns=campaigns, formatted=shape.dynamic)
    for id in range(OBSERVER_IDS, OBSERVER_IDS + shape.observers):
        _add(world, id, world.new_directory(id))
    above = [address_of(voter.id) for voter in world.first_voters]
    ids = itertools.count(RELAY_IDS)
    for count in shape.relays:
        level = [next(ids) for _ in range(count)]
        for id in level:
            _add_relay(world, id, above)
        above = [address_of(id) for id in level]
    if shape.foreign:
        _add(world, FOREIGN_ID, world.new_directory(FOREIGN_ID), cluster_id=OTHER_CLUSTER_ID)


def _add(
    world: World,
    id: int,
    directory_id: Uuid,
    *,
    campaigns: bool = True,
    formatted: bool = False,
    cluster_id: str = CLUSTER_ID,
) -> None:
    shape = world.shape
    addresses = {one.id: address_of(one.id) for one in world.first_voters}
    # The configuration of a node of another cluster names this cluster's voters beside itself.
    statics = addresses if cluster_id == CLUSTER_ID else {**addresses, id: address_of(id)}
    settings = RaftSettings(
        node_id=id,
        directory_id=directory_id,
        cluster_id=cluster_id,
        listener=LISTENER,
        endpoints={LISTENER: address_of(id)},
        static_voters={} if shape.dynamic else statics,
        bootstrap=tuple(addresses.values()),
        campaigns=campaigns,
        auto_join=shape.auto_join and cluster_id == CLUSTER_ID,
        fetch_max_bytes=shape.fetch_max_bytes,
        snapshot_max_bytes=shape.snapshot_max_bytes,
    )
    disk = world.new_disk(directory_id)
    disk.formatted = world.first_voters if formatted else None
    _put(world, settings, disk)


def _add_relay(world: World, id: int, above: Sequence[Address]) -> None:
    """Add an observer that knows only the nodes ``above`` it. As in the server it has no name for
    the listeners of other nodes, so the addresses in voters' records are of no use to it.
    """
    shape = world.shape
    settings = RaftSettings(
        node_id=id,
        directory_id=world.new_directory(id),
        cluster_id=CLUSTER_ID,
        listener="",
        endpoints={LISTENER: address_of(id)},
        bootstrap=tuple(above),
        fetch_max_bytes=shape.fetch_max_bytes,
        snapshot_max_bytes=shape.snapshot_max_bytes,
        observer=ObserverSettings(replica_id=id),
    )
    _put(world, settings, world.new_disk(settings.directory_id))


def _put(world: World, settings: RaftSettings, disk: Disk) -> None:
    node = Node(world, settings, disk, len(world.nodes))
    spread = 1.0 + world.faults.clock_spread
    node.clock_rate = spread ** world.random.uniform(-1.0, 1.0)
    world.nodes.append(node)
    if settings.cluster_id == CLUSTER_ID:
        world.members.append(node)
    world.network.by_address[node.address] = node
