"""What a scenario does to a quorum: drawn at random, or one at a time by name. Requests from
outside are made here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.quorum.events import Resign, ShutDown
from gateway.quorum.partition import TOPIC_NAME
from kwire.messages import (
    add_raft_voter_request,
    begin_quorum_epoch_request,
    describe_quorum_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    update_raft_voter_request,
    vote_request,
)
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kwire.messages.vote_request import VoteRequest
from kwire.uuid import METADATA_TOPIC_ID, Uuid

if TYPE_CHECKING:
    from gateway.address import Address
    from kwire.message import Message
    from tests.sim.node import Node
    from tests.sim.world import World

OUTSIDER: Final = 77
FIRST_OBSERVER: Final = 101
_STRANGERS_DIRECTORY: Final = Uuid(b"stranger" * 2)


def random_act(world: World, rng: random.Random) -> None:
    """One of the acts that this schedule's faults allow, by their rates."""
    faults, shape = world.faults, world.shape
    table: list[tuple[float, Callable[[World, random.Random], None]]] = [
        (shape.proposals, propose),
        (faults.cuts, cut),
        (faults.cuts * 0.7, mend),
        (faults.pauses, pause),
        (faults.kills, kill),
        (faults.snapshots, snapshot),
        (faults.voter_changes if world.dynamic else faults.voter_changes * 0.1, change_voters),
        (faults.forgeries, forge),
        (faults.handovers, hand_over),
        (
            faults.wipes
            if shape.dynamic and shape.voters >= 3 and not faults.voter_changes
            else 0.0,
            wipe,
        ),
        (faults.wall_jumps, jump),
        (0.3, describe),
        (faults.upgrades, upgrade),
    ]
    at = rng.random() * sum(rate for rate, _ in table)
    salt = rng.getrandbits(64)
    for rate, act in table:
        at -= rate
        if at < 0.0:
            # Dice of its own: what an act draws does not change the next one.
            act(world, random.Random(salt))
            return


def acts_per_second(world: World) -> float:
    """How often :func:`random_act` is to be called."""
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


def propose(world: World, rng: random.Random) -> None:
    """Mostly to who leads, and of its epoch; sometimes to another, or of another."""
    leading = [node for node in world.ours if node.leads]
    node = rng.choice(leading) if leading and rng.random() < 0.95 else rng.choice(world.ours)
    if not node.up:
        return
    epoch = node.raft.epoch + rng.choice((-1, 1)) if rng.random() < 0.03 else None
    world.propose(node, rng.choice((1, 1, 1, 2, 3)), rng.choice((1, 1, 2, 3)), epoch)


def cut(world: World, rng: random.Random) -> None:
    """One link, one way or both; one node, the leader mostly; two halves; or a node that only one
    other still hears.
    """
    nodes = world.voters()
    if len(nodes) < 2:
        return
    kind = rng.random()
    if kind < 0.35:
        a, b = rng.sample(nodes, 2)
        world.cut(a, b, both=rng.random() < 0.5)
    elif kind < 0.7:
        leader = world.leader
        world.isolate([leader if leader in nodes and rng.random() < 0.7 else rng.choice(nodes)])
    elif kind < 0.85:
        world.isolate(rng.sample(nodes, rng.randint(1, len(nodes) - 1)))
    else:
        a, b = rng.sample(nodes, 2)
        world.isolate([a], but=[b])


def mend(world: World, rng: random.Random) -> None:
    if world.network.cut:
        world.mend(rng.choice(world.ours) if rng.random() < 0.3 else None)


def pause(world: World, rng: random.Random) -> None:
    """A node stands still; the leader is asked who leads the moment it goes on."""
    leader = world.leader
    node = leader if leader is not None and rng.random() < 0.5 else rng.choice(world.ours)
    if node.up:
        world.pause(node, rng.random() ** 2 * 10.0)
        if rng.random() < 0.5:
            describe_at(world, node)


def kill(world: World, rng: random.Random) -> None:
    leader = world.leader
    node = leader if leader is not None and rng.random() < 0.4 else rng.choice(world.ours)
    if node.up:
        world.kill(node, rng.choice((0.01, None, 5.0 * rng.random())))


def snapshot(world: World, rng: random.Random) -> None:
    world.snapshot(rng.choice(world.ours), rng.choice((0, 1, 1, 2)))


def wipe(world: World, rng: random.Random) -> None:
    """A voter loses its disk, the only one to do so; somebody puts the new one in its place."""
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
        node = rng.choice(nodes)
        directory_id = node.disk.directory_id
        world.wipe(node)
        if node.disk.directory_id != directory_id:
            world.wiped = (node, directory_id)


def jump(world: World, rng: random.Random) -> None:
    """A wall clock is set."""
    node = rng.choice(world.ours)
    if world.may_act("the wall clock of node %d is set", node.id):
        node.wall_skew_ms += rng.choice((-1, 1)) * rng.randint(1, 10_000_000)


def hand_over(world: World, rng: random.Random) -> None:
    """A controller gives up, or a process is asked to end."""
    node = world.leader if rng.random() < 0.7 else rng.choice(world.ours)
    if node is None or not node.up:
        return
    if rng.random() < 0.5:
        world.happen_to(
            node,
            Resign(node.raft.epoch - (rng.random() < 0.1), "an error of the controller"),
            "its controller resigns",
        )
    else:
        world.happen_to(node, ShutDown(rng.random() * 3.0), "it is asked to end")


# --- requests of clients


def describe(world: World, rng: random.Random) -> None:
    describe_at(world, rng.choice(world.ours))


def describe_at(world: World, node: Node) -> None:
    """Ask a node who leads, and with which followers."""
    asked = describe_quorum_request.PartitionData(partition_index=0)
    topic = describe_quorum_request.TopicData(topic_name=TOPIC_NAME, partitions=[asked])
    world.ask(node, DescribeQuorumRequest(topics=[topic]), 2, "DescribeQuorum")


def change_voters(world: World, rng: random.Random) -> None:
    """Add, remove or update a voter."""
    leader = world.leader
    if leader is None:
        return
    at = leader if rng.random() < 0.9 else rng.choice(world.ours)
    voters = world.voters()
    kind = rng.random()
    if kind < 0.45:
        add_voter(world, at, rng.choice(world.ours), committed=rng.random() < 0.5)
    elif kind < 0.8 and len(voters) > 1:
        node = leader if rng.random() < 0.3 else rng.choice(voters)
        remove_voter(world, at, node.id, node.disk.directory_id)
    else:
        update_voter(world, at, rng.choice(voters))


def upgrade(world: World, rng: random.Random) -> None:
    """Have the voters of the configuration put into the log: of the leader, mostly."""
    world.upgrade(world.leader if rng.random() < 0.9 else rng.choice(world.ours))


def add_voter(world: World, at: Node, node: Node, *, committed: bool = True) -> None:
    """AddRaftVoter, as an administrator sends it."""
    listeners = [
        add_raft_voter_request.Listener(name=name, host=to.host, port=to.port)
        for name, to in _endpoints(node)
    ]
    request = AddRaftVoterRequest(
        cluster_id=world.cluster_id, timeout_ms=3000, voter_id=node.id, voter_directory_id=node.disk.directory_id,
        listeners=listeners, ack_when_committed=committed,
    )  # fmt: skip
    world.ask(at, request, 1, f"AddRaftVoter {node.id}")


def remove_voter(world: World, at: Node, id: int, directory_id: Uuid) -> None:
    """RemoveRaftVoter."""
    request = RemoveRaftVoterRequest(
        cluster_id=world.cluster_id, voter_id=id, voter_directory_id=directory_id
    )
    world.ask(at, request, 0, f"RemoveRaftVoter {id}")


def update_voter(world: World, at: Node, node: Node) -> None:
    """UpdateRaftVoter, with what the voter has already: the record is written all the same, or not
    at all.
    """
    listeners = [
        update_raft_voter_request.Listener(name=name, host=to.host, port=to.port)
        for name, to in _endpoints(node)
    ]
    feature = update_raft_voter_request.KRaftVersionFeature(
        min_supported_version=0, max_supported_version=1
    )
    request = UpdateRaftVoterRequest(
        cluster_id=world.cluster_id, current_leader_epoch=at.raft.epoch if at.up else 0, voter_id=node.id,
        voter_directory_id=node.disk.directory_id, listeners=listeners, k_raft_version_feature=feature,
    )  # fmt: skip
    world.ask(at, request, 0, f"UpdateRaftVoter {node.id}")


def _endpoints(node: Node) -> list[tuple[str, Address]]:
    return list(node.settings.endpoints.items())


# --- requests of nobody


def forge(world: World, rng: random.Random) -> None:
    """A request that no node sends: of an unknown candidate, of an old epoch, of another leader,
    with the wrong cluster id.

    Only voters are lied to: an observer that takes over an epoch that nobody else knows waits until
    the others get there.
    """
    leader = world.leader
    node = leader if leader is not None and rng.random() < 0.4 else rng.choice(world.voters())
    if not node.up or node.paused_until > world.now:
        return
    rng.choice((forge_vote, forge_begin, forge_end, forge_fetch, forge_nothing))(world, rng, node)


def forge_nothing(world: World, rng: random.Random, node: Node) -> None:
    """A request about no topic (CVE-2026-83525), or about no partition of one."""
    request: Message
    kind, some = rng.randrange(5), rng.random() < 0.5
    if kind == 0:
        request = VoteRequest(
            topics=[vote_request.TopicData(topic_name=TOPIC_NAME)] if some else []
        )
    elif kind == 1:
        request = BeginQuorumEpochRequest(
            topics=[begin_quorum_epoch_request.TopicData(topic_name=TOPIC_NAME)] if some else []
        )
    elif kind == 2:
        request = EndQuorumEpochRequest(
            topics=[end_quorum_epoch_request.TopicData(topic_name=TOPIC_NAME)] if some else []
        )
    elif kind == 3:
        request = FetchRequest(
            topics=[fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID)] if some else []
        )
    else:
        request = FetchSnapshotRequest(
            topics=[fetch_snapshot_request.TopicSnapshot(name=TOPIC_NAME)] if some else []
        )
    world.ask(node, request, request.VERSIONS[-1], "a request about nothing")


def forge_vote(world: World, rng: random.Random, node: Node) -> None:
    """An unknown candidate's epoch is adopted and its vote refused; that of a wrong cluster is
    neither.
    """
    part = vote_request.PartitionData(
        partition_index=0, replica_epoch=node.raft.epoch + rng.choice((0, 1, 2)), replica_id=OUTSIDER,
        replica_directory_id=_STRANGERS_DIRECTORY, voter_directory_id=node.disk.directory_id,
        last_offset_epoch=rng.choice((0, node.raft.epoch)), last_offset=rng.choice((0, 10_000)), pre_vote=rng.random() < 0.5,
    )  # fmt: skip
    topic = vote_request.TopicData(topic_name=TOPIC_NAME, partitions=[part])
    cluster_id = rng.choice((world.cluster_id, world.cluster_id, None, "ZZZZZZZZZZZZZZZZZZZZZZ"))
    request = VoteRequest(cluster_id=cluster_id, voter_id=node.id, topics=[topic])
    world.ask(node, request, 2 if part.pre_vote else rng.randint(0, 2), "a forged Vote")


def forge_begin(world: World, rng: random.Random, node: Node) -> None:
    """Another leader for an epoch whose leader is known."""
    known = node.raft.leader_id
    others = [one for one in world.first_voters if one.id != known]
    if known < 0 or not others:
        return
    liar = rng.choice(others)
    part = begin_quorum_epoch_request.PartitionData(
        partition_index=0,
        voter_directory_id=node.disk.directory_id,
        leader_id=liar.id,
        leader_epoch=node.raft.epoch - rng.choice((0, 0, 1)),
    )
    topic = begin_quorum_epoch_request.TopicData(topic_name=TOPIC_NAME, partitions=[part])
    ends = [
        begin_quorum_epoch_request.LeaderEndpoint(name=name, host=to.host, port=to.port)
        for name, to in liar.endpoints.items()
    ]
    request = BeginQuorumEpochRequest(
        cluster_id=world.cluster_id, voter_id=node.id, topics=[topic], leader_endpoints=ends
    )
    if part.leader_epoch == node.raft.epoch:
        world.ask(node, request, 1, "a forged BeginQuorumEpoch")


def forge_end(world: World, rng: random.Random, node: Node) -> None:
    """The end of an epoch that is over, or of one by a node that does not lead it, as everybody
    knows.
    """
    if node.raft.leader_id < 0:
        return
    part = end_quorum_epoch_request.PartitionData(
        partition_index=0,
        leader_id=rng.choice(sorted(world.first_voters.nodes)),
        leader_epoch=node.raft.epoch - rng.choice((0, 1)),
    )
    topic = end_quorum_epoch_request.TopicData(topic_name=TOPIC_NAME, partitions=[part])
    world.ask(
        node,
        EndQuorumEpochRequest(cluster_id=world.cluster_id, topics=[topic]),
        1,
        "a forged EndQuorumEpoch",
    )


def forge_fetch(world: World, rng: random.Random, node: Node) -> None:
    """Somebody unknown has everything, or a voter had in an older epoch, or a voter's namesake with
    another disk.
    """
    if not node.up:
        return
    log = node.disk.view
    kind = rng.randrange(3)
    id, epoch, directory_id = OUTSIDER, node.raft.epoch, _STRANGERS_DIRECTORY
    if kind == 1:
        voter = rng.choice(list(world.first_voters))
        id, epoch, directory_id = voter.id, node.raft.epoch - 1, voter.directory_id
    elif kind == 2 and node.raft.kraft_version >= 1:
        id = rng.choice(list(world.first_voters)).id
    if id == node.id or epoch < log.last_epoch:
        return
    asked = fetch_request.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=log.end_offset, last_fetched_epoch=log.last_epoch,
        replica_directory_id=directory_id,
    )  # fmt: skip
    topic = fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[asked])
    state = fetch_request.ReplicaState(replica_id=id)
    world.ask(
        node,
        FetchRequest(
            cluster_id=world.cluster_id, replica_state=state, max_wait_ms=500, topics=[topic]
        ),
        18,
        "a forged Fetch",
    )
