"""Which topics there are, by name and by id, and what lies in their partitions: the metadata log, the account of who changed
it, and topics made here.

Topics are made where this node is part of a quorum of its own. What the log says of them is told to clients, but no records of
theirs are kept: their partitions are empty, and stay so. It knows no request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.handlers.errors import ErrorCode
from gateway.ports import AUDIT_TOPIC, AUDIT_TOPIC_ID, PARTITION, TOPIC_NAME, OffsetAt, OffsetOutOfRange, Partition, Read, State
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import METADATA_TOPIC_ID, Uuid

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.cluster.image import Image


class Topic(NamedTuple):
    """A topic that exists. ``partitions`` are as its records say, or would; None for the metadata log, which has one."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionRecord] | None


METADATA_LOG: Final = Topic(TOPIC_NAME, METADATA_TOPIC_ID, None)
#: The leader epoch of every partition of the audit topic: each node leads its own for ever.
_AUDIT_EPOCH: Final = 0


def made_here(context: Context) -> Image | None:
    """The cluster of this node's own quorum, as far as it is committed; None where the log is written by others."""
    gateway = context.gateway
    return gateway.quorum.image if gateway.controller is not None and gateway.quorum is not None else None


def cluster_image(context: Context) -> Image | None:
    """The cluster whose log this is, as far as it is committed, whoever writes it; None where it comes from files."""
    quorum = context.gateway.quorum
    return None if quorum is None else quorum.image


def topic_names(context: Context) -> list[str]:
    """Every topic's, sorted."""
    image = made_here(context)
    ours = (TOPIC_NAME,) if audit_topic(context) is None else (TOPIC_NAME, AUDIT_TOPIC)
    return sorted({*ours, *(image.topic_ids if image is not None else ())})


def audit_topic(context: Context) -> Topic | None:
    """Who changed what: a partition for each node of our own quorum, in the order of their ids. None where none is kept."""
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
    """The topic of that name, if there is one."""
    if name == TOPIC_NAME:
        return METADATA_LOG
    if name == AUDIT_TOPIC:
        return audit_topic(context)
    image = made_here(context)
    topic_id = image.topic_ids.get(name) if image is not None else None
    return None if image is None or topic_id is None else Topic(name, topic_id, image.partitions[topic_id])


def topic_with_id(topic_id: Uuid, context: Context) -> Topic | None:
    """The topic with that id, if there is one."""
    if topic_id == METADATA_TOPIC_ID:
        return METADATA_LOG
    if topic_id == AUDIT_TOPIC_ID:
        return audit_topic(context)
    image = made_here(context)
    name = image.topics.get(topic_id) if image is not None else None
    return None if image is None or name is None else Topic(name, topic_id, image.partitions[topic_id])


def has_partition(topic: Topic, index: int) -> bool:
    """Has the topic a partition of that number?"""
    return index == PARTITION if topic.partitions is None else index in topic.partitions


def log_of(topic: Topic, index: int, context: Context) -> Partition | ErrorCode:
    """What a client of this node finds in a partition, or why it has to look elsewhere."""
    if not has_partition(topic, index):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.partitions is None:
        return context.gateway.partition
    record = topic.partitions[index]
    if record.leader != context.gateway.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if topic.topic_id == AUDIT_TOPIC_ID:
        assert context.gateway.audit is not None, "there is no such topic without it"
        return context.gateway.audit.partition
    return EmptyLog(record.leader_epoch)


class EmptyLog:
    """``gateway.ports.Partition`` of a topic that was made here: it begins and ends at offset 0."""

    state: Final = State.READY
    cluster_id: Final = ""
    log_start_offset: Final = 0
    high_watermark: Final = 0
    size_bytes: Final = 0
    log_dir: Final = ""

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch: Final = leader_epoch

    def read(self, offset: int, max_bytes: int) -> Read:
        """Nothing. Raises OffsetOutOfRange for any offset but the end."""
        self.bytes_available(offset, 0)
        return Read((), 0, lambda: None)

    def bytes_available(self, offset: int, limit: int) -> int:
        """None. Raises OffsetOutOfRange for any offset but the end."""
        if offset:
            raise OffsetOutOfRange(f"offset {offset} is not in a log that is empty")
        return 0

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        """No record has any."""
        return None

    def max_timestamp(self) -> OffsetAt | None:
        """No record has any."""
        return None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """No epoch wrote anything."""
        return -1, -1

    def epoch_at(self, offset: int) -> int:
        """No epoch wrote anything."""
        return -1

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """It never does."""
        return lambda: None
