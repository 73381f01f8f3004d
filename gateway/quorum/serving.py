"""Answers Fetch and FetchSnapshot as the leader, and records the progress of the replicas.

An observer that is a relay checks requests here, too, and answers Fetch by ``relaying``. This
module reads no log: a response names the bytes that the driver puts into it. Follows
``handleFetchRequest``, ``tryCompleteFetchRequest`` and ``handleFetchSnapshotRequest`` (KIP-595,
630, 853, 1166).
"""

from __future__ import annotations

import math
from typing import Any, Final

from gateway.quorum import checks, responses
from gateway.quorum.effects import LogRange, SnapshotRange
from gateway.quorum.events import Requested
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import Node
from gateway.quorum.partition import PARTITION
from gateway.quorum.relaying import Relaying
from gateway.quorum.replicated_log import BOOTSTRAP
from gateway.quorum.roles import DelayedFetch, Leader, Progress
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

#: The first version whose response has the leader's epoch. Kafka's leaders refuse lower ones too.
_FETCH_FROM: Final = 12
#: The first version in which a topic has an id instead of a name (KIP-516).
_TOPIC_IDS_FROM: Final = 13
#: Observers remembered for DescribeQuorum. Any node may fetch as an observer, under any id.
_OBSERVERS_MAX: Final = 256
#: Fetches in the purgatory at one time. One more ends the wait of the oldest.
_DELAYED_MAX: Final = 1024
#: Longest wait of a delayed Fetch, ms: max_wait_ms may be 24 days.
_WAIT_MS_MAX: Final = 300_000


class Serving:
    """Answers the Fetch and FetchSnapshot requests of replicas."""

    def __init__(self, node: Node, leader_role: LeaderRole, relaying: Relaying) -> None:
        self._node = node
        self._leader_role = leader_role
        self._relaying = relaying

    # --- Fetch ---

    def on_fetch(self, asked: Requested) -> None:
        """Answer a Fetch at once, or later if there is nothing new yet."""
        node, request = self._node, asked.message
        assert isinstance(request, FetchRequest), request
        partition = _fetched_partition(request, asked.version)
        if error := self._relay_refusal(_replica_id(request, asked.version)):
            responses.refuse(node, asked, FetchResponse, error)
        # First, as in ``handleFetchRequest``: a node of another cluster is told neither the epoch
        # nor the leader of this one.
        elif checks.is_other_cluster(node, request.cluster_id):
            responses.refuse(node, asked, FetchResponse, ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif partition is None:
            responses.refuse(node, asked, FetchResponse, ErrorCode.INVALID_REQUEST)
        elif error := self._fetch_error(request, partition):
            responses.fetch(node, asked, error)
        elif node.is_relay:
            self._relaying.serve(asked, request, partition)
        else:
            self._serve(asked, request, partition)

    def _relay_refusal(self, replica_id: int) -> ErrorCode:
        return self._relaying.refusal(replica_id) if self._node.is_relay else ErrorCode.NONE

    def _serve(self, asked: Requested, request: FetchRequest, partition: Any) -> None:
        node, role = self._node, self._node.role
        assert isinstance(role, Leader), "only a leader gets here"
        replica_id = _replica_id(request, asked.version)
        # This node does not fetch from itself: the sender has this node's id by mistake.
        # UNKNOWN_SERVER_ERROR as in Kafka, where ``LeaderState.updateReplicaState`` throws.
        if replica_id == node.settings.node_id:
            responses.fetch(node, asked, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        replica = self._replica(role, replica_id, partition.replica_directory_id)
        waiting = DelayedFetch(
            asked.number, replica, request, partition, asked.version, asked.listener, math.inf
        )
        if not self._answer(role, waiting, now_or_never=False):
            self._delay(role, waiting)

    def _fetch_error(self, request: FetchRequest, partition: Any) -> ErrorCode:
        epoch, last_epoch = partition.current_leader_epoch, partition.last_fetched_epoch
        # A consumer sends -1 for an epoch that it does not know, so a plain consumer is refused
        # here.
        if request.max_wait_ms < 0 or partition.fetch_offset < 0 or epoch < 0 or last_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        error = checks.leader_only(self._node, epoch)
        # A replica knows every epoch in its log. The epoch of the request is compared first, so
        # that the sender of an older one learns the newer; Kafka's ``handleFetchRequest`` makes
        # this check before it compares epochs.
        return (
            ErrorCode.INVALID_REQUEST if error is ErrorCode.NONE and last_epoch > epoch else error
        )

    def _answer(self, leader: Leader, asked: DelayedFetch, now_or_never: bool) -> bool:
        """Answer if there is anything new, or ``now_or_never``; return False if it must wait."""
        node, partition = self._node, asked.partition
        verdict = node.log.validate(partition.fetch_offset, partition.last_fetched_epoch)
        # -1 until a record of this epoch is committed, also if this node knew a high watermark
        # before.
        told = leader.high_watermark
        # Answered at once, whatever the request's ``max_wait_ms``: new records are of no use to a
        # replica that has to truncate first (KAFKA-15100). Seeded bug in tests/sim:
        # ``diverging_answers_wait``. The offset does not count: the replica has other records below
        # it. Seeded bug: ``a_fetch_counts_before_logs_are_compared``.
        if verdict.diverging is not None or verdict.snapshot is not None:
            responses.fetch(
                node,
                asked,
                high_watermark=told,
                diverging=verdict.diverging,
                snapshot=verdict.snapshot,
            )
            return True
        # A request counts as a sign of life when it arrives, and not again when it is answered.
        if asked.replica is not None and not now_or_never:
            self._follow(leader, asked.replica, partition.fetch_offset)
            told = leader.high_watermark
        # Only what is durable on the leader: after a crash it must not know less than a follower
        # that has acknowledged the records (KAFKA-10533). Seeded bug in tests/sim:
        # ``gives_out_what_is_not_on_disk``. Kafka's leader reads up to its log end
        # (``Isolation.UNCOMMITTED``).
        end = node.log.flushed
        if partition.fetch_offset < end:
            # ``partition_max_bytes`` is not looked at: Kafka's replicas send 0 there. The first
            # batch goes out whole, also if it is larger.
            most = min(max(asked.request.max_bytes, 1), responses.FETCH_MAX_BYTES)
            responses.fetch(
                node, asked, high_watermark=told, read=LogRange(partition.fetch_offset, end, most)
            )
            return True
        # Below version 18, and in a request without the field, the high watermark is the largest
        # int64, so that such a Fetch waits as before KIP-1166.
        if now_or_never or asked.request.max_wait_ms == 0 or told > partition.high_watermark:
            responses.fetch(node, asked, high_watermark=told)
            return True
        return False

    def _follow(self, leader: Leader, replica: Progress, offset: int) -> None:
        """Note that a replica has everything below ``offset``."""
        # The offset may be lower than before: the replica has lost its disk, and must not be
        # counted by what it had (KAFKA-12181). The high watermark does not fall with it.
        node, before = self._node, replica.offset
        end = node.log.end_offset
        # A replica at the leader's end is caught up now. One at the end of that time when it last
        # fetched was caught up then (KIP-836, as for the ISR).
        if offset >= end:
            replica.caught_up_at, replica.caught_up_ms = node.now, node.wall_ms
        elif 0 < replica.leader_end <= offset:
            replica.caught_up_at, replica.caught_up_ms = replica.fetched_at, replica.fetched_ms
        replica.offset, replica.leader_end, replica.fetched_ms = offset, end, node.wall_ms
        if leader.progress.get(replica.id) is replica:
            self._leader_role.voter_fetched(leader, replica)
            # A lower offset cannot raise the high watermark, and nothing lowers it.
            if offset > before:
                self._leader_role.advance(leader)
        else:
            replica.fetched_at = node.now

    def _replica(self, leader: Leader, id: int, directory_id: Uuid) -> Progress | None:
        """Return the progress of the replica: of a voter, if the id and, where the voter set has
        one, the directory id match; else of an observer. None without an id.
        """
        if id < 0:
            return None
        voter = self._node.voters.nodes.get(id)
        if voter is not None and voter.is_key(id, directory_id):
            progress = leader.progress[id]
            # The voter set of a static quorum has no directory ids; Fetch version 17 names them.
            if voter.directory_id == ZERO_UUID:
                progress.directory_id = directory_id
            return progress
        observers = leader.observers
        key = id, directory_id
        observer = observers.get(key)
        if observer is None:
            # The observer whose last Fetch is oldest is dropped. Only its row of DescribeQuorum is
            # lost.
            if len(observers) >= _OBSERVERS_MAX:
                del observers[min(observers, key=lambda other: observers[other].fetched_at)]
            observer = observers[key] = Progress(id, directory_id, fetched_at=self._node.now)
        return observer

    # --- purgatory ---

    def _delay(self, leader: Leader, waiting: DelayedFetch) -> None:
        now = self._node.now
        if len(leader.delayed) >= _DELAYED_MAX:
            oldest = next(iter(leader.delayed))
            # Without an error: the replica fetches again at once and is parked behind the others.
            self._answer(leader, leader.delayed.pop(oldest), now_or_never=True)
        waiting.until = now + min(waiting.request.max_wait_ms, _WAIT_MS_MAX) / 1000.0
        leader.delayed[waiting.number] = waiting
        leader.delayed_until = min(leader.delayed_until, waiting.until)

    def cancel(self, number: int) -> None:
        """Drop a delayed Fetch whose client has disconnected."""
        self._relaying.cancel(number)
        if isinstance(self._node.role, Leader):
            self._node.role.delayed.pop(number, None)

    def log_grew(self, leader: Leader) -> None:
        """Answer the Fetches that wait at the old end: more of the log is durable."""
        end = self._node.log.flushed
        for waiting in [
            waiting for waiting in leader.delayed.values() if waiting.partition.fetch_offset < end
        ]:
            self._release(leader, waiting)

    def committed(self, leader: Leader) -> None:
        """Answer every delayed Fetch with the new high watermark."""
        # At every version: Kafka before KIP-1166 answers such Fetches only at the end of their
        # wait, and a follower then learns of a commit up to 500 ms late.
        for waiting in list(leader.delayed.values()):
            self._release(leader, waiting)

    def _release(self, leader: Leader, waiting: DelayedFetch) -> None:
        # Answering an earlier one may have raised the high watermark and answered this one too.
        if leader.delayed.pop(waiting.number, None) is not None:
            self._answer(leader, waiting, now_or_never=True)

    def poll(self, leader: Leader) -> None:
        """Answer the Fetches whose wait is over, without records."""
        now = self._node.now
        if now < leader.delayed_until:
            return
        for waiting in [waiting for waiting in leader.delayed.values() if now >= waiting.until]:
            self._release(leader, waiting)
        leader.delayed_until = min(
            (waiting.until for waiting in leader.delayed.values()), default=math.inf
        )

    def stopped_leading(self, leader: Leader) -> None:
        """Answer every delayed Fetch at once with the error of a former leader (KAFKA-10677)."""
        node, waiting = self._node, list(leader.delayed.values())
        leader.delayed.clear()
        for one in waiting:
            # FENCED_LEADER_EPOCH if the node has moved to a newer epoch: the response then names
            # it, and the replica need not search.
            responses.fetch(node, one, checks.leader_only(node, one.partition.current_leader_epoch))

    # --- FetchSnapshot ---

    def on_fetch_snapshot(self, asked: Requested) -> None:
        """Answer a FetchSnapshot with bytes of a snapshot's file."""
        # Every field is checked before it is used: in Kafka 4.3 some requests stop the leader
        # (CVE-2026-83525).
        node, request = self._node, asked.message
        assert isinstance(request, FetchSnapshotRequest), request
        if refusal := self._relay_refusal(request.replica_id):
            return responses.refuse(node, asked, FetchSnapshotResponse, refusal)
        if checks.is_other_cluster(node, request.cluster_id):
            return responses.refuse(
                node, asked, FetchSnapshotResponse, ErrorCode.INCONSISTENT_CLUSTER_ID
            )
        # ``handleFetchSnapshotRequest`` joins the two conditions with "and", and so reads the first
        # topic of an empty list.
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            # Of the whole request: without a partition there is no place for another error.
            return responses.refuse(node, asked, FetchSnapshotResponse, ErrorCode.INVALID_REQUEST)
        name, partition = request.topics[0].name, request.topics[0].partitions[0]
        id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        error = self._snapshot_error(name, partition, id)
        if error:
            return responses.fetch_snapshot(node, asked, name, partition.partition, error, id=id)
        role = node.role
        # A voter that downloads a snapshot does not fetch meanwhile. It still follows this leader.
        if isinstance(role, Leader) and request.replica_id in role.progress:
            voter = role.progress[request.replica_id]
            if node.voters.nodes[voter.id].is_key(voter.id, partition.replica_directory_id):
                self._leader_role.voter_fetched(role, voter)
        most = min(max(request.max_bytes, 1), responses.FETCH_MAX_BYTES)
        read = SnapshotRange(id, partition.position, most)
        return responses.fetch_snapshot(node, asked, name, PARTITION, id=id, read=read)

    def _snapshot_error(self, name: str, partition: Any, id: SnapshotId) -> ErrorCode:
        if name != CLUSTER_METADATA_TOPIC or partition.partition != PARTITION:
            # Before the epoch is looked at: the epoch in the request belongs to another partition.
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = checks.leader_only(self._node, partition.current_leader_epoch)
        if error:
            return error
        # The follower goes back to Fetch for it, and learns of the snapshot that there is now.
        if id == BOOTSTRAP or id not in self._node.log.snapshots:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        # The core does not know the file's size: the driver refuses a position at or beyond it.
        return ErrorCode.POSITION_OUT_OF_RANGE if partition.position < 0 else ErrorCode.NONE


def _fetched_partition(request: FetchRequest, version: int) -> Any:
    """Return the metadata partition of a Fetch, None unless it is the only one."""
    topics = request.topics
    if version < _FETCH_FROM or len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic = topics[0]
    is_metadata = (
        topic.topic_id == METADATA_TOPIC_ID
        if version >= _TOPIC_IDS_FROM
        else topic.topic == CLUSTER_METADATA_TOPIC
    )
    return (
        topic.partitions[0] if is_metadata and topic.partitions[0].partition == PARTITION else None
    )


def _replica_id(request: FetchRequest, version: int) -> int:
    """Return the replica id, which moved to another field in version 15 (KIP-903)."""
    return request.replica_state.replica_id if version >= 15 else request.replica_id
