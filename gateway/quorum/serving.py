"""A leader's answers to Fetch and FetchSnapshot: what replicas copy, and how the leader learns what
they have.

Kafka's ``handleFetchRequest``, ``tryCompleteFetchRequest``, ``handleFetchSnapshotRequest``
(KIP-595, 630, 853, 1166). Reads no log: an answer says which bytes belong into it.
"""

from __future__ import annotations

import math
from typing import Any, Final

from gateway.quorum import checks, responses
from gateway.quorum.effects import LogRange, SnapshotRange
from gateway.quorum.errors import ErrorCode
from gateway.quorum.events import Requested
from gateway.quorum.leader_role import LeaderRole
from gateway.quorum.node import Node
from gateway.quorum.partition import PARTITION, TOPIC_NAME
from gateway.quorum.replicated_log import BOOTSTRAP
from gateway.quorum.roles import DelayedFetch, Leader, Progress
from gateway.quorum.settings import MIB
from gateway.snapshot_id import SnapshotId
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

#: Below this the answer has no place for the leader's epoch: real leaders refuse, and so does this
#: one.
_FETCH_FROM: Final = 12
#: From this version on a topic has an id and no name.
_TOPIC_IDS_FROM: Final = 13
_ANSWER_MAX_BYTES: Final = 8 * MIB  # ``KafkaRaftClient.MAX_FETCH_SIZE_BYTES``
#: Replicas that do not vote, remembered for DescribeQuorum.
_OBSERVERS_MAX: Final = 256
#: Fetches that may wait at one time; beyond, the oldest is answered as it is.
_DELAYED_MAX: Final = 1024
#: Longest wait of a parked Fetch, ms: max_wait_ms may say 24 days.
_WAIT_MS_MAX: Final = 300_000


class Serving:
    """The part of a node that others copy from."""

    def __init__(self, node: Node, leader_role: LeaderRole) -> None:
        self._node = node
        self._leader_role = leader_role

    # --- Fetch ---

    def on_fetch(self, asked: Requested) -> None:
        """Answer a Fetch, at once or when there is something new."""
        node, request = self._node, asked.message
        assert isinstance(request, FetchRequest), request
        partition = _fetched_partition(request, asked.version)
        if checks.is_other_cluster(node, request.cluster_id):
            responses.refuse(node, asked, FetchResponse, ErrorCode.INCONSISTENT_CLUSTER_ID)
        elif partition is None:
            responses.refuse(node, asked, FetchResponse, ErrorCode.INVALID_REQUEST)
        elif error := self._fetch_error(request, partition):
            responses.fetch(node, asked, error)
        else:
            self._serve(asked, request, partition)

    def _serve(self, asked: Requested, request: FetchRequest, partition: Any) -> None:
        node, role = self._node, self._node.role
        assert isinstance(role, Leader), "only a leader gets here"
        replica_id = _replica_id(request, asked.version)
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
        if request.max_wait_ms < 0 or partition.fetch_offset < 0 or epoch < 0 or last_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        error = checks.leader_only(self._node, epoch)
        # No log holds a later epoch than its owner knows of. Kafka goes on, and would find no such
        # epoch.
        return (
            ErrorCode.INVALID_REQUEST if error is ErrorCode.NONE and last_epoch > epoch else error
        )

    def _answer(self, leader: Leader, asked: DelayedFetch, now_or_never: bool) -> bool:
        """Answer if there is anything to say, or ``now_or_never``. False: it should wait."""
        node, partition = self._node, asked.partition
        verdict = node.log.validate(partition.fetch_offset, partition.last_fetched_epoch)
        told = leader.high_watermark
        if verdict.diverging is not None or verdict.snapshot is not None:
            responses.fetch(
                node,
                asked,
                high_watermark=told,
                diverging=verdict.diverging,
                snapshot=verdict.snapshot,
            )
            return True
        if (
            asked.replica is not None and not now_or_never
        ):  # who was heard when it asked is not heard again now
            self._follow(leader, asked.replica, partition.fetch_offset)
            told = leader.high_watermark
        end = node.log.flushed
        if partition.fetch_offset < end:
            most = min(max(asked.request.max_bytes, 1), _ANSWER_MAX_BYTES)
            responses.fetch(
                node, asked, high_watermark=told, read=LogRange(partition.fetch_offset, end, most)
            )
            return True
        if now_or_never or asked.request.max_wait_ms == 0 or told > partition.high_watermark:
            responses.fetch(node, asked, high_watermark=told)
            return True
        return False

    def _follow(self, leader: Leader, replica: Progress, offset: int) -> None:
        """A replica has everything below ``offset``, or has lost what it had (KAFKA-12181)."""
        node, before = self._node, replica.offset
        end = node.log.end_offset
        if offset >= end:
            replica.caught_up_at, replica.caught_up_ms = node.now, node.wall_ms
        elif 0 < replica.leader_end <= offset:
            replica.caught_up_at, replica.caught_up_ms = replica.fetched_at, replica.fetched_ms
        replica.offset, replica.leader_end, replica.fetched_ms = offset, end, node.wall_ms
        if leader.progress.get(replica.id) is replica:
            self._leader_role.voter_fetched(leader, replica)
            if offset > before:
                self._leader_role.advance(leader)
        else:
            replica.fetched_at = node.now

    def _replica(self, leader: Leader, id: int, directory_id: Uuid) -> Progress | None:
        """Who fetches: a voter by id and, where both are known, directory id; else an observer;
        None without an id.
        """
        if id < 0:
            return None
        voter = self._node.voters.nodes.get(id)
        if voter is not None and voter.is_key(id, directory_id):
            progress = leader.progress[id]
            if voter.directory_id == ZERO_UUID:
                # static quorums learn it from the voter itself, for DescribeQuorum
                progress.directory_id = directory_id
            return progress
        observers = leader.observers
        key = id, directory_id
        observer = observers.get(key)
        if observer is None:
            if len(observers) >= _OBSERVERS_MAX:
                del observers[min(observers, key=lambda other: observers[other].fetched_at)]
            observer = observers[key] = Progress(id, directory_id, fetched_at=self._node.now)
        return observer

    # --- waiting ---

    def _delay(self, leader: Leader, waiting: DelayedFetch) -> None:
        now = self._node.now
        if len(leader.delayed) >= _DELAYED_MAX:
            oldest = next(iter(leader.delayed))
            self._answer(leader, leader.delayed.pop(oldest), now_or_never=True)
        waiting.until = now + min(waiting.request.max_wait_ms, _WAIT_MS_MAX) / 1000.0
        leader.delayed[waiting.number] = waiting
        leader.delayed_until = min(leader.delayed_until, waiting.until)

    def cancel(self, number: int) -> None:
        """Nobody waits for that answer any more."""
        if isinstance(self._node.role, Leader):
            self._node.role.delayed.pop(number, None)

    def log_grew(self, leader: Leader) -> None:
        """More is durable: who waits at the old end gets it."""
        end = self._node.log.flushed
        for waiting in [
            waiting for waiting in leader.delayed.values() if waiting.partition.fetch_offset < end
        ]:
            self._release(leader, waiting)

    def committed(self, leader: Leader) -> None:
        """The high watermark rose: whoever waits is told, whatever version it speaks."""
        for waiting in list(leader.delayed.values()):
            self._release(leader, waiting)

    def _release(self, leader: Leader, waiting: DelayedFetch) -> None:
        if (
            leader.delayed.pop(waiting.number, None) is not None
        ):  # not answered on the way, by what an earlier one brought about
            self._answer(leader, waiting, now_or_never=True)

    def poll(self, leader: Leader) -> None:
        """Those that waited long enough get what there is: nothing."""
        now = self._node.now
        if now < leader.delayed_until:
            return
        for waiting in [waiting for waiting in leader.delayed.values() if now >= waiting.until]:
            self._release(leader, waiting)
        leader.delayed_until = min(
            (waiting.until for waiting in leader.delayed.values()), default=math.inf
        )

    def stopped_leading(self, leader: Leader) -> None:
        """Whoever waits is told at once who leads now (KAFKA-10677)."""
        node, waiting = self._node, list(leader.delayed.values())
        leader.delayed.clear()
        for one in waiting:
            responses.fetch(node, one, checks.leader_only(node, one.partition.current_leader_epoch))

    # --- FetchSnapshot ---

    def on_fetch_snapshot(self, asked: Requested) -> None:
        """Answer a FetchSnapshot with bytes of a snapshot's file. Never dies of one
        (CVE-2026-83525).
        """
        node, request = self._node, asked.message
        assert isinstance(request, FetchSnapshotRequest), request
        if checks.is_other_cluster(node, request.cluster_id):
            return responses.refuse(
                node, asked, FetchSnapshotResponse, ErrorCode.INCONSISTENT_CLUSTER_ID
            )
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return responses.refuse(node, asked, FetchSnapshotResponse, ErrorCode.INVALID_REQUEST)
        name, partition = request.topics[0].name, request.topics[0].partitions[0]
        id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        error = self._snapshot_error(name, partition, id)
        if error:
            return responses.fetch_snapshot(node, asked, name, partition.partition, error, id=id)
        role = node.role
        assert isinstance(role, Leader), "only a leader gets here"
        if request.replica_id in role.progress:  # it takes its time, but it follows
            voter = role.progress[request.replica_id]
            if node.voters.nodes[voter.id].is_key(voter.id, partition.replica_directory_id):
                self._leader_role.voter_fetched(role, voter)
        most = min(max(request.max_bytes, 1), _ANSWER_MAX_BYTES)
        read = SnapshotRange(id, partition.position, most)
        return responses.fetch_snapshot(node, asked, name, PARTITION, id=id, read=read)

    def _snapshot_error(self, name: str, partition: Any, id: SnapshotId) -> ErrorCode:
        if name != TOPIC_NAME or partition.partition != PARTITION:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = checks.leader_only(self._node, partition.current_leader_epoch)
        if error:
            return error
        if id == BOOTSTRAP or id not in self._node.log.snapshots:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        return ErrorCode.POSITION_OUT_OF_RANGE if partition.position < 0 else ErrorCode.NONE


def _fetched_partition(request: FetchRequest, version: int) -> Any:
    """The metadata partition, None unless it is the only one. Real leaders refuse version 12, which
    KIP-595 wrote.
    """
    topics = request.topics
    if version < _FETCH_FROM or len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    topic = topics[0]
    ours = (
        topic.topic_id == METADATA_TOPIC_ID
        if version >= _TOPIC_IDS_FROM
        else topic.topic == TOPIC_NAME
    )
    return topic.partitions[0] if ours and topic.partitions[0].partition == PARTITION else None


def _replica_id(request: FetchRequest, version: int) -> int:
    """Who fetches; it moved in version 15 (KIP-903)."""
    return request.replica_state.replica_id if version >= 15 else request.replica_id
