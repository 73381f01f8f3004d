"""Finds the partitions that this node serves, by the name or the id of their topic.

These are the metadata log, the view topics, this node's audit log until the audit topic is created,
and those partitions of created topics that this node leads, which are empty if it is no broker. It
decides about no client. Kafka's counterpart is ``ReplicaManager.getPartitionOrError``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.ports.services import (
    AUDIT_TOPIC,
    AUDIT_TOPIC_ID,
    PARTITION,
    Isolation,
    Partition,
    ReadPolicy,
    State,
)
from gateway.ports.view_topics import VIEW_TOPICS
from gateway.sources.log_partition import EMPTY_LOG, LogPartition
from kwire.protocol import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.gateway_port import Gateway
    from gateway.log.files.problem import Problem
    from gateway.ports.replicas import Replicas
    from gateway.ports.services import Audit, Quorum
    from gateway.ports.view_topics import Views
    from kwire.uuid import Uuid

_Found = Partition | ErrorCode
_READ_COMMITTED: Final = 1
_AUDIT: Final = (AUDIT_TOPIC, AUDIT_TOPIC_ID)
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class EmptyPartition(LogPartition):
    """A partition of a created topic, which begins and ends at offset 0: the server stores no
    records for it.
    """

    state: Final = State.READY
    problems: Final[tuple[Problem, ...]] = ()

    def __init__(self, leader_epoch: int) -> None:
        super().__init__(cluster_id="", log_dir="")
        self.serve(replace(EMPTY_LOG, epoch=leader_epoch), notify=False)


#: One object for all partitions of an epoch: they do not differ, and a waiting Fetch of many of
#: them is registered once.
_empty: Final = functools.lru_cache(maxsize=1024)(EmptyPartition)


class ConsumersOnly:
    """``gateway.ports.services.ReadPolicy`` of a node without followers.

    A client with a replica id gets a consumer's response, and advances no high watermark
    (CVE-2018-1288).
    """

    def isolation(self, replica_id: int, isolation_level: int) -> Isolation:
        """Return that of a consumer."""
        committed = isolation_level == _READ_COMMITTED
        return Isolation.TXN_COMMITTED if committed else Isolation.HIGH_WATERMARK


class Replicated:
    """``gateway.ports.services.ReadPolicy`` of a broker, whose partitions have followers."""

    def isolation(self, replica_id: int, isolation_level: int) -> Isolation:
        """Return that of a follower for the id of a broker (``FetchIsolation.of``)."""
        if replica_id >= 0:
            return Isolation.LOG_END
        return ConsumersOnly().isolation(replica_id, isolation_level)


class ServedPartitions:
    """``gateway.ports.services.Partitions``. A topic that does not come from the image has a
    function that finds its partitions by their index.
    """

    def __init__(
        self,
        node_id: int,
        metadata_log: Partition,
        *,
        quorum: Quorum | None = None,
        audit: Audit | None = None,
        views: Views | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        """``quorum``: the node's own, whose image has the created topics. ``replicas``: their
        records, where this node keeps them.
        """
        self.policy: ReadPolicy = ConsumersOnly() if replicas is None else Replicated()
        self._node_id = node_id
        self._quorum = quorum
        self._replicas = replicas
        self._topics: dict[str | Uuid, Callable[[int], _Found]] = {}
        self._add(CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, partial(_only, metadata_log))
        if audit is not None:
            self._add(AUDIT_TOPIC, AUDIT_TOPIC_ID, partial(_of_audit, audit, node_id))
        if views is not None:
            for name, topic_id in VIEW_TOPICS.items():
                self._add(name, topic_id, partial(_of_view, views, name))

    def _add(self, name: str, topic_id: Uuid, find: Callable[[int], _Found]) -> None:
        self._topics[name] = self._topics[topic_id] = find

    def find(self, topic: str | Uuid, index: int) -> _Found:
        """As in ``gateway.ports.services.Partitions``."""
        return self._find(topic, index, of_leader=True)

    def find_replica(self, topic: str | Uuid, index: int) -> _Found:
        """As in ``gateway.ports.services.Partitions``."""
        return self._find(topic, index, of_leader=False)

    def _find(self, topic: str | Uuid, index: int, *, of_leader: bool) -> _Found:
        image = None if self._quorum is None else self._quorum.image
        find = self._topics.get(topic)
        if find is not None and not (
            topic in _AUDIT and image is not None and AUDIT_TOPIC in image.topic_ids
        ):
            return find(index)
        if image is None:
            return _UNKNOWN
        topic_id = image.topic_ids.get(topic) if isinstance(topic, str) else topic
        record = image.partitions.get(topic_id, {}).get(index) if topic_id is not None else None
        if record is None:
            return _UNKNOWN
        if record.leader != self._node_id and (of_leader or self._replicas is None):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return (
            _empty(record.leader_epoch) if self._replicas is None else self._replicas.find(record)
        )


def served_partitions(gateway: Gateway) -> ServedPartitions:
    """Return the partitions of a node with these parts."""
    return ServedPartitions(
        gateway.node_id,
        gateway.partition,
        quorum=None if gateway.controller is None else gateway.quorum,
        audit=gateway.audit,
        views=gateway.views,
        replicas=gateway.replicas,
    )


def _only(partition: Partition, index: int) -> _Found:
    return partition if index == PARTITION else _UNKNOWN


def _of_view(views: Views, name: str, index: int) -> _Found:
    return _only(views.partition(name), index) if views.available else _UNKNOWN


def _of_audit(audit: Audit, node_id: int, index: int) -> _Found:
    nodes = audit.nodes
    if not 0 <= index < len(nodes):
        return _UNKNOWN
    return audit.partition if nodes[index] == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER
