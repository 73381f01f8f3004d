"""Finds topics by name and by id, and their partitions: metadata log, audit topic, view topics,
created topics.

Topics can be created if this node belongs to a quorum of kwire. Clients see their metadata, but the
server stores no records for them, so their partitions are empty. It knows no request.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.ports import (
    AUDIT_TOPIC,
    AUDIT_TOPIC_ID,
    PARTITION,
    OffsetAt,
    OffsetOutOfRange,
    Partition,
    Read,
    State,
)
from gateway.view_topics import VIEW_NAMES, VIEW_TOPICS
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, Uuid

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.cluster.image import Image


class Topic(NamedTuple):
    """A topic. ``partitions`` are its records in the image; None for the metadata log and the view
    topics, which have one partition and no records.
    """

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionRecord] | None


METADATA_LOG: Final = Topic(CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, None)
_VIEWS: Final = tuple(Topic(name, topic_id, None) for name, topic_id in VIEW_TOPICS.items())
#: The leader epoch of every audit partition: its leader never changes.
_AUDIT_EPOCH: Final = 0


def own_image(context: Context) -> Image | None:
    """Return the committed image of this node's own quorum; None if it only reads a log that others
    write.
    """
    gateway = context.gateway
    return (
        gateway.quorum.image
        if gateway.controller is not None and gateway.quorum is not None
        else None
    )


def cluster_image(context: Context) -> Image | None:
    """Return the committed image of the cluster, own or observed; None if the log comes from
    files.
    """
    quorum = context.gateway.quorum
    return None if quorum is None else quorum.image


def names_in_order(first: str, context: Context) -> Iterator[str | None]:
    """Yield the names of all topics from ``first`` on, sorted; None after each short step of work.

    A topic that is created or deleted meanwhile may be among them.
    """
    before = sorted(one.name for one in fixed_topics(context) if one.name >= first)
    image = own_image(context)
    if image is None:
        yield from before
        return
    index = context.gateway.topic_index
    yield from index.follow(image)
    yield from heapq.merge(before, index.names(first))


def fixed_topics(context: Context) -> list[Topic]:
    """Return the topics that are listed but are not in the image: the metadata log, the audit topic
    and the listed view topics.
    """
    audit = audit_topic(context)
    return [METADATA_LOG, *([] if audit is None else [audit]), *_listed_views(context)]


def view_topics(context: Context) -> tuple[Topic, ...]:
    """Return the view topics; none if they are disabled, or the log leads to no state."""
    views = context.gateway.views
    return _VIEWS if views is not None and views.available else ()


def _listed_views(context: Context) -> tuple[Topic, ...]:
    """Return the view topics that the list of all topics has (``metadata.views.list``)."""
    views = context.gateway.views
    return view_topics(context) if views is not None and views.listed else ()


def count_partitions(context: Context, at_most: int) -> int:
    """Return the number of partitions and topics, but no more than ``at_most``: counting stops
    there, to bound its time.
    """
    image, audit = own_image(context), context.gateway.audit
    total = 1 + len(_listed_views(context)) + (0 if audit is None else len(audit.nodes))
    for partitions in () if image is None else image.partitions.values():
        if total >= at_most:
            return at_most
        total += 1 + len(partitions)
    return min(total, at_most)


def audit_topic(context: Context) -> Topic | None:
    """Return the audit topic, with one partition for each node of this quorum in the order of their
    ids; None without an audit topic.
    """
    audit = context.gateway.audit
    nodes = audit.nodes if audit is not None else ()
    if not nodes:
        return None
    partitions = {
        index: PartitionRecord(
            partition_id=index,
            topic_id=AUDIT_TOPIC_ID,
            replicas=[node],
            isr=[node],
            leader=node,
            leader_epoch=_AUDIT_EPOCH,
        )
        for index, node in enumerate(nodes)
    }
    return Topic(AUDIT_TOPIC, AUDIT_TOPIC_ID, partitions)


def topic_named(name: str, context: Context) -> Topic | None:
    """Return the topic of that name, if there is one."""
    if name == CLUSTER_METADATA_TOPIC:
        return METADATA_LOG
    if name == AUDIT_TOPIC:
        return audit_topic(context)
    if name in VIEW_TOPICS:
        return next((one for one in view_topics(context) if one.name == name), None)
    image = own_image(context)
    topic_id = image.topic_ids.get(name) if image is not None else None
    return (
        None
        if image is None or topic_id is None
        else Topic(name, topic_id, image.partitions[topic_id])
    )


def topic_with_id(topic_id: Uuid, context: Context) -> Topic | None:
    """Return the topic with that id, if there is one."""
    if topic_id == METADATA_TOPIC_ID:
        return METADATA_LOG
    if topic_id == AUDIT_TOPIC_ID:
        return audit_topic(context)
    if topic_id in VIEW_NAMES:
        return topic_named(VIEW_NAMES[topic_id], context)
    image = own_image(context)
    name = image.topics.get(topic_id) if image is not None else None
    return (
        None if image is None or name is None else Topic(name, topic_id, image.partitions[topic_id])
    )


def has_partition(topic: Topic, index: int) -> bool:
    """Whether the topic has a partition of that number."""
    return index == PARTITION if topic.partitions is None else index in topic.partitions


def log_of(topic: Topic, index: int, context: Context) -> Partition | ErrorCode:
    """Return the log of a partition on this node, or the error for the client.

    It is UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER if another node leads it.
    """
    if not has_partition(topic, index):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.topic_id in VIEW_NAMES:
        assert context.gateway.views is not None, "a view topic without views"
        return context.gateway.views.partition(topic.name)
    if topic.partitions is None:
        return context.gateway.partition
    record = topic.partitions[index]
    if record.leader != context.gateway.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if topic.topic_id == AUDIT_TOPIC_ID:
        assert context.gateway.audit is not None, "an audit topic without an audit log"
        return context.gateway.audit.partition
    return EmptyLog(record.leader_epoch)


class EmptyLog:
    """``gateway.ports.Partition`` of a created topic: it begins and ends at offset 0."""

    state: Final = State.READY
    cluster_id: Final = ""
    log_start_offset: Final = 0
    high_watermark: Final = 0
    size_bytes: Final = 0
    log_dir: Final = ""

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch: Final = leader_epoch

    def read(self, offset: int, max_bytes: int) -> Read:
        """Return no records. Raises OffsetOutOfRange for any offset but the end."""
        self.bytes_available(offset, 0)
        return Read((), 0, lambda: None)

    def bytes_available(self, offset: int, limit: int) -> int:
        """Return 0. Raises OffsetOutOfRange for any offset but the end."""
        if offset:
            raise OffsetOutOfRange(f"offset {offset} is not in a log that is empty")
        return 0

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        """Return None: there are no records."""
        return None

    def max_timestamp(self) -> OffsetAt | None:
        """Return None: there are no records."""
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (-1, -1): there are no records."""
        return -1, -1

    def epoch_at(self, offset: int) -> int:
        """Return -1: there are no records."""
        return -1

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Never call the callback: the log does not advance."""
        return lambda: None
