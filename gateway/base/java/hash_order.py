"""Puts keys in the order in which ``java.util.HashMap`` and ``HashSet`` iterate over them.

Kafka's assignors read members and topics in that order, so it decides who gets which partition. A
table does not shrink, and a bucket of eight and more keys is a tree; neither is modelled here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeVar

from kwire.uuid import Uuid

_K = TypeVar("_K")
_LONGS: Final = struct.Struct(">QQ")
_MASK: Final = 0xFFFFFFFF
#: Of an empty ``HashMap``.
CAPACITY: Final = 16


def string_hash(text: str) -> int:
    """``String.hashCode``, without a sign."""
    value = 0
    if text.isascii():
        for byte in text.encode("ascii"):
            value = (31 * value + byte) & _MASK
        return value
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value


def uuid_hash(topic_id: Uuid) -> int:
    """``org.apache.kafka.common.Uuid.hashCode``, without a sign."""
    high, low = _LONGS.unpack(topic_id)
    mixed: int = high ^ low
    return mixed >> 32 ^ mixed & _MASK


def capacity_for(size: int) -> int:
    """The capacity of ``new HashSet(collection)`` of ``size`` elements."""
    return max(int(size / 0.75) + 1, CAPACITY)


def hash_order(
    keys: Iterable[_K], hash_of: Callable[[_K], int], capacity: int = CAPACITY
) -> list[_K]:
    """Return ``keys``, given in the order of their insertion, as a table of that first capacity
    has them.
    """
    given: Collection[_K] = keys if isinstance(keys, Collection) else list(keys)
    buckets = 1
    while buckets < capacity or len(given) > 0.75 * buckets:
        buckets *= 2
    mask = buckets - 1

    def bucket(key: _K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & mask

    return sorted(given, key=bucket)


def members_in_order(member_ids: Iterable[str]) -> list[str]:
    return hash_order(member_ids, string_hash)


def topics_in_order(topic_ids: Iterable[Uuid], capacity: int = CAPACITY) -> list[Uuid]:
    return hash_order(topic_ids, uuid_hash, capacity)


def partitions_in_order(partitions: Collection[int]) -> list[int]:
    """Return partitions as a ``HashSet`` has them that was made of a collection of that size."""
    return hash_order(
        sorted(partitions), lambda partition: partition, capacity_for(len(partitions))
    )
