"""Acts of a scenario on a quorum: one drawn at random (``random_act``), or each by name.

Faults of processes and links, requests of clients and of administrators. ``forgeries`` has the
requests that no node sends.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from gateway.quorum.events import Resign, ShutDown
from kwire.messages import (
    add_raft_voter_request,
    describe_quorum_request,
    update_raft_voter_request,
)
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.uuid import Uuid
from tests.sim import forgeries
from tests.sim.timeline import do_one

if TYPE_CHECKING:
    from gateway.base.address import Address
    from tests.sim.node import Node
    from tests.sim.world import World


def random_act(world: World, random: Random) -> None:
    """Do one of the acts that this schedule's faults allow, chosen by their rates."""
    faults, shape = world.faults, world.shape
    table: list[tuple[float, Callable[[World, Random], None]]] = [
        (shape.proposals, propose),
        (faults.cuts, cut),
        (faults.cuts * 0.7, mend),
        (faults.pauses, pause),
        (faults.kills, kill),
        (faults.snapshots, snapshot),
        (faults.voter_changes if world.dynamic else faults.voter_changes * 0.1, change_voters),
        (faults.forgeries, forgeries.random_forgery),
        (faults.handovers, hand_over),
        (
            faults.wipes
            if shape.dynamic and shape.voters >= 3 and not faults.voter_changes
            else 0.0,
            wipe,
        ),
        (faults.wall_jumps, set_wall_clock),
        (0.3, describe),
        (faults.upgrades, upgrade),
    ]
    do_one(world, random, table)


def acts_per_second(world: World) -> float:
    """The rate at which :func:`random_act` is to be called."""
    f = world.faults
    return (
        world.shape.proposals
        + 1.7 * f.cuts
        + f.pauses
        + f.kills
        + f.snapshots
        + f.voter_changes
        + f.forgeries
        + f.handovers
        + f.wipes
        + f.upgrades
        + 0.3
    )


def propose(world: World, random: Random) -> None:
    """Propose records: mostly to a leader in its epoch, sometimes to another node or epoch."""
    leading = [node for node in world.members if node.leads]
    node = (
        random.choice(leading)
        if leading and random.random() < 0.95
        else random.choice(world.members)
    )
    if not node.up:
        return
    epoch = node.raft.epoch + random.choice((-1, 1)) if random.random() < 0.03 else None
    world.propose(node, random.choice((1, 1, 1, 2, 3)), random.choice((1, 1, 2, 3)), epoch)


def cut(world: World, random: Random) -> None:
    """Cut one link, in one direction or both; one node, mostly the leader; some of the nodes from
    the others; or a node from all others but one.
    """
    nodes = world.voters()
    if len(nodes) < 2:
        return
    kind = random.random()
    if kind < 0.35:
        a, b = random.sample(nodes, 2)
        world.cut(a, b, both=random.random() < 0.5)
    elif kind < 0.7:
        leader = world.leader
        world.isolate(
            [leader if leader in nodes and random.random() < 0.7 else random.choice(nodes)]
        )
    elif kind < 0.85:
        world.isolate(random.sample(nodes, random.randint(1, len(nodes) - 1)))
    else:
        a, b = random.sample(nodes, 2)
        world.isolate([a], but=[b])


def mend(world: World, random: Random) -> None:
    if world.network.cut:
        world.mend(random.choice(world.members) if random.random() < 0.3 else None)


def pause(world: World, random: Random) -> None:
    """Suspend a node. Sometimes it gets a DescribeQuorum, which it reads when it resumes."""
    leader = world.leader
    node = leader if leader is not None and random.random() < 0.5 else random.choice(world.members)
    if node.up:
        world.pause(node, random.random() ** 2 * 10.0)
        if random.random() < 0.5:
            describe_at(world, node)


def kill(world: World, random: Random) -> None:
    leader = world.leader
    node = leader if leader is not None and random.random() < 0.4 else random.choice(world.members)
    if node.up:
        world.kill(node, random.choice((0.01, None, 5.0 * random.random())))


def snapshot(world: World, random: Random) -> None:
    world.snapshot(random.choice(world.members), random.choice((0, 1, 1, 2)))


def wipe(world: World, random: Random) -> None:
    """A voter loses its disk, at most one in a schedule; an administrator removes the old voter and
    adds the new one.
    """
    lost = world.wiped
    if lost is not None:
        node, directory_id = lost
        leader = world.leader
        if leader is None:
            return
        if leader.raft.voters.has(node.id, directory_id):
            remove_voter(world, leader, node.id, directory_id)
        elif node.up:
            add_voter(world, leader, node)
        return
    nodes = [node for node in world.voters() if node.settings.campaigns]
    if len(nodes) >= 3:
        node = random.choice(nodes)
        directory_id = node.disk.directory_id
        world.wipe(node)
        if node.disk.directory_id != directory_id:
            world.wiped = (node, directory_id)


def set_wall_clock(world: World, random: Random) -> None:
    """Set a wall clock forward or back."""
    node = random.choice(world.members)
    if world.may_act("the wall clock of node %d is set", node.id):
        node.wall_skew_ms += random.choice((-1, 1)) * random.randint(1, 10_000_000)


def hand_over(world: World, random: Random) -> None:
    """A controller resigns, or a process gets a request to end."""
    node = world.leader if random.random() < 0.7 else random.choice(world.members)
    if node is None or not node.up:
        return
    if random.random() < 0.5:
        world.happen_to(
            node,
            Resign(node.raft.epoch - (random.random() < 0.1), "an error of the controller"),
            "its controller resigns",
        )
    else:
        world.happen_to(node, ShutDown(random.random() * 3.0), "it is asked to end")


# --- requests of clients and administrators


def describe(world: World, random: Random) -> None:
    describe_at(world, random.choice(world.members))


def describe_at(world: World, node: Node) -> None:
    """Send DescribeQuorum to a node."""
    partition = describe_quorum_request.PartitionData(partition_index=0)
    topic = describe_quorum_request.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    world.ask(node, DescribeQuorumRequest(topics=[topic]), 2, "DescribeQuorum")


def change_voters(world: World, random: Random) -> None:
    """Add, remove or update a voter."""
    leader = world.leader
    if leader is None:
        return
    at = leader if random.random() < 0.9 else random.choice(world.members)
    voters = world.voters()
    kind = random.random()
    if kind < 0.45:
        add_voter(world, at, random.choice(world.members), committed=random.random() < 0.5)
    elif kind < 0.8 and len(voters) > 1:
        node = leader if random.random() < 0.3 else random.choice(voters)
        remove_voter(world, at, node.id, node.disk.directory_id)
    else:
        update_voter(world, at, random.choice(voters))


def upgrade(world: World, random: Random) -> None:
    """Ask a node, mostly the leader, to put the static voters into the log."""
    world.upgrade(world.leader if random.random() < 0.9 else random.choice(world.members))


def add_voter(world: World, at: Node, node: Node, *, committed: bool = True) -> None:
    """AddRaftVoter, as an administrator sends it."""
    listeners = [
        add_raft_voter_request.Listener(name=name, host=to.host, port=to.port)
        for name, to in _endpoints(node)
    ]
    request = AddRaftVoterRequest(
        cluster_id=world.cluster_id,
        timeout_ms=3000,
        voter_id=node.id,
        voter_directory_id=node.disk.directory_id,
        listeners=listeners,
        ack_when_committed=committed,
    )
    world.ask(at, request, 1, f"AddRaftVoter {node.id}")


def remove_voter(world: World, at: Node, id: int, directory_id: Uuid) -> None:
    """RemoveRaftVoter."""
    request = RemoveRaftVoterRequest(
        cluster_id=world.cluster_id, voter_id=id, voter_directory_id=directory_id
    )
    world.ask(at, request, 0, f"RemoveRaftVoter {id}")


def update_voter(world: World, at: Node, node: Node) -> None:
    """UpdateRaftVoter with the values that the voter has already."""
    listeners = [
        update_raft_voter_request.Listener(name=name, host=to.host, port=to.port)
        for name, to in _endpoints(node)
    ]
    feature = update_raft_voter_request.KRaftVersionFeature(
        min_supported_version=0, max_supported_version=1
    )
    request = UpdateRaftVoterRequest(
        cluster_id=world.cluster_id,
        current_leader_epoch=at.raft.epoch if at.up else 0,
        voter_id=node.id,
        voter_directory_id=node.disk.directory_id,
        listeners=listeners,
        k_raft_version_feature=feature,
    )
    world.ask(at, request, 0, f"UpdateRaftVoter {node.id}")


def _endpoints(node: Node) -> list[tuple[str, Address]]:
    return list(node.settings.endpoints.items())
