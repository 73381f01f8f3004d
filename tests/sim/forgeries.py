"""Requests that no node of the quorum sends: of unknown candidates, of old epochs, of a second
leader, with a wrong cluster id, or about no partition.

``random_forgery`` is the act of a schedule; the other functions forge one kind of request each.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from kwire.messages import (
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    vote_request,
)
from kwire.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.vote_request import VoteRequest
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.uuid import METADATA_TOPIC_ID, Uuid

if TYPE_CHECKING:
    from kwire.message import Message
    from tests.sim.node import Node
    from tests.sim.world import World

#: The id of no node.
UNKNOWN_ID: Final = 77
_UNKNOWN_DIRECTORY: Final = Uuid(b"outsider" * 2)


def random_forgery(world: World, random: Random) -> None:
    """Send one of the forgeries to a voter.

    Not to observers: one that adopts a forged epoch waits until the voters reach that epoch.
    """
    leader = world.leader
    node = leader if leader is not None and random.random() < 0.4 else random.choice(world.voters())
    if not node.up or node.paused_until > world.now:
        return
    random.choice((vote, begin, end_epoch, fetch, empty))(world, random, node)


def empty(world: World, random: Random, node: Node) -> None:
    """A request without topics (CVE-2026-83525), or with a topic without partitions."""
    request: Message
    kind, some = random.randrange(5), random.random() < 0.5
    if kind == 0:
        request = VoteRequest(
            topics=[vote_request.TopicData(topic_name=CLUSTER_METADATA_TOPIC)] if some else []
        )
    elif kind == 1:
        request = BeginQuorumEpochRequest(
            topics=[begin_quorum_epoch_request.TopicData(topic_name=CLUSTER_METADATA_TOPIC)]
            if some
            else []
        )
    elif kind == 2:
        request = EndQuorumEpochRequest(
            topics=[end_quorum_epoch_request.TopicData(topic_name=CLUSTER_METADATA_TOPIC)]
            if some
            else []
        )
    elif kind == 3:
        request = FetchRequest(
            topics=[fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID)] if some else []
        )
    else:
        request = FetchSnapshotRequest(
            topics=[fetch_snapshot_request.TopicSnapshot(name=CLUSTER_METADATA_TOPIC)]
            if some
            else []
        )
    world.ask(node, request, request.VERSIONS[-1], "a request without partitions")


def vote(world: World, random: Random, node: Node) -> None:
    """A Vote of an unknown candidate: the epoch is adopted and the vote refused. With a wrong
    cluster id neither happens.
    """
    part = vote_request.PartitionData(
        partition_index=0,
        replica_epoch=node.raft.epoch + random.choice((0, 1, 2)),
        replica_id=UNKNOWN_ID,
        replica_directory_id=_UNKNOWN_DIRECTORY,
        voter_directory_id=node.disk.directory_id,
        last_offset_epoch=random.choice((0, node.raft.epoch)),
        last_offset=random.choice((0, 10_000)),
        pre_vote=random.random() < 0.5,
    )
    topic = vote_request.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[part])
    cluster_id = random.choice((world.cluster_id, world.cluster_id, None, "ZZZZZZZZZZZZZZZZZZZZZZ"))
    request = VoteRequest(cluster_id=cluster_id, voter_id=node.id, topics=[topic])
    world.ask(node, request, 2 if part.pre_vote else random.randint(0, 2), "a forged Vote")


def of_epoch(world: World, random: Random, node: Node, epoch: int, sender: int) -> None:
    """A Vote, BeginQuorumEpoch or EndQuorumEpoch in an epoch that no election has reached."""
    request: Message
    kind = random.randrange(3)
    if kind == 0:
        vote_part = vote_request.PartitionData(
            partition_index=0,
            replica_epoch=epoch,
            replica_id=sender,
            last_offset_epoch=epoch - 1,
            last_offset=10_000,
            pre_vote=random.random() < 0.5,
        )
        vote_topic = vote_request.TopicData(
            topic_name=CLUSTER_METADATA_TOPIC, partitions=[vote_part]
        )
        request = VoteRequest(cluster_id=world.cluster_id, topics=[vote_topic])
    elif kind == 1:
        begin_part = begin_quorum_epoch_request.PartitionData(
            partition_index=0, leader_id=sender, leader_epoch=epoch
        )
        begin_topic = begin_quorum_epoch_request.TopicData(
            topic_name=CLUSTER_METADATA_TOPIC, partitions=[begin_part]
        )
        request = BeginQuorumEpochRequest(cluster_id=world.cluster_id, topics=[begin_topic])
    else:
        end_part = end_quorum_epoch_request.PartitionData(
            partition_index=0, leader_id=sender, leader_epoch=epoch
        )
        end_topic = end_quorum_epoch_request.TopicData(
            topic_name=CLUSTER_METADATA_TOPIC, partitions=[end_part]
        )
        request = EndQuorumEpochRequest(cluster_id=world.cluster_id, topics=[end_topic])
    world.ask(node, request, request.VERSIONS[-1], f"a request of epoch {epoch}")


def begin(world: World, random: Random, node: Node) -> None:
    """A BeginQuorumEpoch that names a second leader for an epoch, or one of the epoch before."""
    known = node.raft.leader_id
    others = [one for one in world.first_voters if one.id != known]
    if known < 0 or not others:
        return
    second = random.choice(others)
    part = begin_quorum_epoch_request.PartitionData(
        partition_index=0,
        voter_directory_id=node.disk.directory_id,
        leader_id=second.id,
        leader_epoch=node.raft.epoch - random.choice((0, 0, 1)),
    )
    topic = begin_quorum_epoch_request.TopicData(
        topic_name=CLUSTER_METADATA_TOPIC, partitions=[part]
    )
    ends = [
        begin_quorum_epoch_request.LeaderEndpoint(name=name, host=to.host, port=to.port)
        for name, to in second.endpoints.items()
    ]
    request = BeginQuorumEpochRequest(
        cluster_id=world.cluster_id, voter_id=node.id, topics=[topic], leader_endpoints=ends
    )
    if part.leader_epoch == node.raft.epoch:
        world.ask(node, request, 1, "a forged BeginQuorumEpoch")


def end_epoch(world: World, random: Random, node: Node) -> None:
    """An EndQuorumEpoch for an epoch that is over, or by a voter that does not lead it."""
    if node.raft.leader_id < 0:
        return
    part = end_quorum_epoch_request.PartitionData(
        partition_index=0,
        leader_id=random.choice(sorted(world.first_voters.nodes)),
        leader_epoch=node.raft.epoch - random.choice((0, 1)),
    )
    topic = end_quorum_epoch_request.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[part])
    world.ask(
        node,
        EndQuorumEpochRequest(cluster_id=world.cluster_id, topics=[topic]),
        1,
        "a forged EndQuorumEpoch",
    )


def fetch(world: World, random: Random, node: Node) -> None:
    """A Fetch at the leader's log end: by an unknown id, by a voter in an older epoch, or under a
    voter's id with another directory.
    """
    if not node.up:
        return
    log = node.disk.view
    kind = random.randrange(3)
    id, epoch, directory_id = UNKNOWN_ID, node.raft.epoch, _UNKNOWN_DIRECTORY
    if kind == 1:
        voter = random.choice(list(world.first_voters))
        id, epoch, directory_id = voter.id, node.raft.epoch - 1, voter.directory_id
    elif kind == 2 and node.raft.kraft_version >= 1:
        id = random.choice(list(world.first_voters)).id
    if id == node.id or epoch < log.last_epoch:
        return
    partition = fetch_request.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        replica_directory_id=directory_id,
    )
    topic = fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    state = fetch_request.ReplicaState(replica_id=id)
    world.ask(
        node,
        FetchRequest(
            cluster_id=world.cluster_id, replica_state=state, max_wait_ms=500, topics=[topic]
        ),
        18,
        "a forged Fetch",
    )
