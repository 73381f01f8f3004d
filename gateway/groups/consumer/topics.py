"""Declares what consumer groups know of topics, and hashes what a group subscribes to.

The hash changes when a topic of the group is created or deleted, gets partitions, or moves to
another rack: then the group needs a new assignment (``Utils.computeGroupHash``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from gateway.base.slices import Slices
from gateway.base.xxh3 import xxh3_64
from kwire.uuid import Uuid

#: ``TOPIC_HASH_MAGIC_BYTE``
_MAGIC = 0
#: Topics that are hashed between two slices, and partitions of them.
_TOPICS_PER_SLICE = 200
_PARTITIONS_PER_SLICE = 2000


class TopicMetadata(NamedTuple):
    """``racks``: of each partition the racks of its replicas; empty if no broker has one."""

    name: str
    topic_id: Uuid
    partitions: int
    racks: Sequence[Sequence[str]] = ()


class Topics(Protocol):
    """The topics that clients of this node see (``CoordinatorMetadataImage``)."""

    @property
    def version(self) -> int:
        """Rises whenever any topic may have changed."""

    @property
    def names_version(self) -> int:
        """The ``version`` at which a topic was created last."""

    def named(self, name: str) -> TopicMetadata | None: ...
    def with_id(self, topic_id: Uuid) -> TopicMetadata | None: ...
    def names(self) -> Iterable[str]:
        """All topics. They may change while they are iterated over."""
        ...


class NoTopics:
    """``Topics`` of a node that has none."""

    version = names_version = 0

    def named(self, name: str) -> TopicMetadata | None:
        return None

    def with_id(self, topic_id: Uuid) -> TopicMetadata | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


class TopicHashes:
    """The hashes of topics. A topic is hashed again when it has changed."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[str, tuple[TopicMetadata, int]] = {}

    def of_group(self, names: Iterable[str]) -> Slices[int]:
        """The hash of the topics of that name, as the signed number that records have."""
        topics = []
        for number, name in enumerate(names):
            topic = self._topics.named(name)
            if topic is not None:
                topics.append(topic)
            if number % _TOPICS_PER_SLICE == 0:
                yield
        hashes = bytearray()
        partitions = 0
        for topic in sorted(topics, key=_utf16_name):
            hashes += struct.pack("<Q", self._of_topic(topic))
            partitions += topic.partitions
            if partitions >= _PARTITIONS_PER_SLICE:
                partitions = 0
                yield
        if not hashes:
            return 0
        value = xxh3_64(bytes(hashes))
        return value - (1 << 64) if value >> 63 else value

    def forget(self, names: Iterable[str]) -> None:
        """Drop the hashes of topics to which no group subscribes any more."""
        for name in names:
            self._known.pop(name, None)

    def _of_topic(self, topic: TopicMetadata) -> int:
        known = self._known.get(topic.name)
        if known is None or known[0] != topic:
            known = self._known[topic.name] = (topic, topic_hash(topic))
        return known[1]


def topic_hash(topic: TopicMetadata) -> int:
    """``Utils.computeTopicHash``: of id, name, and the partitions with their racks."""
    high, low = struct.unpack(">QQ", topic.topic_id)
    name = topic.name.encode("utf-16-le", "surrogatepass")
    data = bytearray(struct.pack("<BQQ", _MAGIC, high, low))
    data += name + struct.pack("<ii", len(name) // 2, topic.partitions)
    for partition in range(topic.partitions):
        data += struct.pack("<i", partition)
        for rack in sorted(topic.racks[partition]) if topic.racks else ():
            text = rack.encode("utf-16-le", "surrogatepass")
            data += struct.pack("<i", len(text) // 2) + text + struct.pack("<i", len(text) // 2)
    return xxh3_64(bytes(data))


def _utf16_name(topic: TopicMetadata) -> bytes:
    return topic.name.encode("utf-16-be", "surrogatepass")  # as String.compareTo
