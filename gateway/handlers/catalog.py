"""Finds topics by name and by id: metadata log, audit topic, view topics, created topics.

The audit topic is a created topic once the image has it. Before, it is made of the audit logs of
the nodes (:func:`audit_logs`).

Topics can be created if this node belongs to a quorum of kwire. It knows no request, and no
records: ``gateway.ports.services.Partitions`` finds those. Kafka's counterpart is
``MetadataCache``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.ports.services import AUDIT_TOPIC, AUDIT_TOPIC_ID, PARTITION
from gateway.ports.view_topics import VIEW_NAMES, VIEW_TOPICS
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import CLUSTER_METADATA_TOPIC
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


def controller_image(context: Context) -> Image | None:
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
    if controller_image(context) is None:
        yield from before
        return
    index = context.gateway.topic_index
    yield from index.follow()
    yield from heapq.merge(before, index.names(first))


def fixed_topics(context: Context) -> list[Topic]:
    """Return the topics that are listed but are not in the image: the metadata log, the audit
    logs and the listed view topics.
    """
    audit = audit_logs(context)
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
    image, audit = controller_image(context), audit_logs(context)
    local = 0 if audit is None or audit.partitions is None else len(audit.partitions)
    total = 1 + len(_listed_views(context)) + local
    for partitions in () if image is None else image.partitions.values():
        if total >= at_most:
            return at_most
        total += 1 + len(partitions)
    return min(total, at_most)


def audit_logs(context: Context) -> Topic | None:
    """Return the audit topic that is made of the nodes' audit logs: one partition for each node of
    this quorum in the order of their ids. None without audit logs, and where the topic was created.
    """
    audit, image = context.gateway.audit, controller_image(context)
    nodes = audit.nodes if audit is not None else ()
    if not nodes or (image is not None and AUDIT_TOPIC in image.topic_ids):
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
    if name == AUDIT_TOPIC and (logs := audit_logs(context)) is not None:
        return logs
    if name in VIEW_TOPICS:
        return next((one for one in view_topics(context) if one.name == name), None)
    image = controller_image(context)
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
        return audit_logs(context)
    if topic_id in VIEW_NAMES:
        return topic_named(VIEW_NAMES[topic_id], context)
    image = controller_image(context)
    name = image.topics.get(topic_id) if image is not None else None
    return (
        None if image is None or name is None else Topic(name, topic_id, image.partitions[topic_id])
    )


def has_partition(topic: Topic, index: int) -> bool:
    """Whether the topic has a partition of that number."""
    return index == PARTITION if topic.partitions is None else index in topic.partitions
