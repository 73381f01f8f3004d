"""Requests as a voter writes them, and changes that make them hostile.

``VoterRequests`` builds one for a running node; each other function returns its argument with
something wrong in it.
"""

from __future__ import annotations

from typing import Any

from gateway.base.address import Address
from gateway.quorum import requests
from gateway.quorum.partition import Position
from gateway.quorum.voter_set import VoterNode
from kwire.message import Message
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.vote_request import VoteRequest
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.uuid import ZERO_UUID, Uuid
from tests.gateway.server.own_nodes import OwnNode

#: A directory id of no node.
UNKNOWN_DIRECTORY = Uuid(b"outsider" * 2)
_SOME = SnapshotId(5, 1)


class VoterRequests:
    """Requests to ``node`` with its epoch and id; keywords change single fields."""

    def __init__(self, node: OwnNode, cluster_id: str) -> None:
        self.node, self.cluster_id = node, cluster_id
        self.me = node.raft.node_id
        self.epoch = node.raft.epoch
        self.end = Position(node.raft.log.end_offset, node.raft.log.last_epoch)

    def vote(
        self,
        version: int = 2,
        *,
        epoch: int = 0,
        candidate: int = 77,
        pre_vote: bool = False,
        **more: Any,
    ) -> VoteRequest:
        """A Vote of an unknown candidate with an empty log; ``epoch`` counts from the node's."""
        return requests.vote(
            version,
            cluster_id=self.cluster_id,
            epoch=self.epoch + epoch,
            candidate=(candidate, UNKNOWN_DIRECTORY),
            voter=more.get("voter", VoterNode(self.me)),
            log_end=more.get("log_end", Position(0, 0)),
            pre_vote=pre_vote,
        )

    def begin(
        self, version: int = 1, *, epoch: int = 0, leader: int = 77, voter: VoterNode | None = None
    ) -> Any:
        voter = voter or VoterNode(self.me)
        endpoints = {"CONTROLLER": Address("127.0.0.1", 1)}
        return requests.begin_quorum_epoch(
            version,
            cluster_id=self.cluster_id,
            epoch=self.epoch + epoch,
            leader_id=leader,
            voter=voter,
            endpoints=endpoints,
        )

    def end_epoch(
        self, version: int = 1, *, epoch: int = 0, leader: int = 77, successors: Any = ()
    ) -> Any:
        return requests.end_quorum_epoch(
            version,
            cluster_id=self.cluster_id,
            epoch=self.epoch + epoch,
            leader_id=leader,
            successors=successors,
            endpoints={},
        )

    def fetch(
        self,
        version: int = 17,
        *,
        epoch: int = 0,
        replica: int = 77,
        log_end: Position | None = None,
        **more: Any,
    ) -> Any:
        made = requests.fetch(
            version,
            cluster_id=self.cluster_id,
            replica=(replica, UNKNOWN_DIRECTORY),
            epoch=self.epoch + epoch,
            log_end=log_end or Position(0, 0),
            high_watermark=-1,
            max_wait_ms=0,
            max_bytes=1 << 20,
        )
        for name, value in more.items():
            setattr(made, name, value)
        return made

    def fetch_snapshot(
        self, version: int = 1, *, epoch: int = 0, id: SnapshotId = _SOME, position: int = 0
    ) -> Any:
        return requests.fetch_snapshot(
            version,
            cluster_id=self.cluster_id,
            replica=(77, UNKNOWN_DIRECTORY),
            epoch=self.epoch + epoch,
            id=id,
            position=position,
            max_bytes=1 << 20,
        )


def with_topics(message: Any, count: int) -> Any:
    """With its topic ``count`` times."""
    message.topics = message.topics * count
    return message


def with_partitions(message: Any, count: int) -> Any:
    """With its partition ``count`` times."""
    message.topics[0].partitions = message.topics[0].partitions * count
    return message


def wrong_topic(message: Any) -> Any:
    """With another topic."""
    topic = message.topics[0]
    if isinstance(message, FetchRequest):
        topic.topic_id = UNKNOWN_DIRECTORY
    elif isinstance(message, FetchSnapshotRequest):
        topic.name = "orders"
    else:
        topic.topic_name = "orders"
    return message


def wrong_partition(message: Any, index: int) -> Any:
    """With another partition index."""
    partition = message.topics[0].partitions[0]
    if hasattr(partition, "partition_index"):
        partition.partition_index = index
    else:
        partition.partition = index
    return message


def spoil(message: Any, **fields: Any) -> Any:
    """With other fields in its partition."""
    for name, value in fields.items():
        setattr(message.topics[0].partitions[0], name, value)
    return message


def other_cluster(message: Any, cluster_id: str = "another-cluster-000000") -> Any:
    """With another cluster id."""
    message.cluster_id = cluster_id
    return message


def fetch_by_name(voter: VoterRequests) -> Any:
    """A Fetch that names its topic, as version 12 does."""
    message = voter.fetch(13)
    message.topics[0].topic_id, message.topics[0].topic = ZERO_UUID, CLUSTER_METADATA_TOPIC
    return message


def add_voter(cluster_id: str) -> Message:
    return requests.add_voter(
        1, cluster_id=cluster_id, node=VoterNode(77, UNKNOWN_DIRECTORY), timeout_ms=100
    )
