"""Encodes the topics of Metadata responses, ten times as fast as structs of their partitions.

The generated encoder writes a topic; the lines of its partitions are packed here and inserted where
it walks over the array. The tests compare the bytes with those of structs at every version.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.handlers.topic import INTERNAL_TOPICS
from gateway.ports.encoded import NO_ERRORS, Encoded
from kwire.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kwire.protocol import ErrorCode
from kwire.wire import varint

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from kwire.messages.partition_record import PartitionRecord
    from kwire.uuid import Uuid

#: The versions whose topics differ from those of the version before: ``MetadataResponse.json``.
_FORMS: Final = (0, 1, 5, 7, 8, 9, 10)
#: The first versions with offline replicas, with leader epochs, with authorized operations, and
#: with compact arrays and tagged fields.
_OFFLINE, _EPOCH, _OPERATIONS, _FLEXIBLE = 5, 7, 8, 9
#: Partitions that are encoded in one step: about 0.5 ms.
_STEP: Final = 500
#: Different lists of replicas and in-sync replicas whose encodings are remembered.
_LISTS_MAX: Final = 10_000

#: Bytes of memory besides the encoded ones: of the objects, and for each topic.
_OBJECTS_SIZE, _PER_TOPIC = 350, 12
_NO_LEADER: Final = ErrorCode.LEADER_NOT_AVAILABLE.value

_operations = struct.Struct(">i").pack


def form_of(version: int) -> int:
    """Return the oldest version of the response whose topics have the same bytes."""
    return _FORMS[bisect_right(_FORMS, version) - 1]


class NamedPartitions(NamedTuple):
    """A topic to encode. ``partitions`` is never changed in place."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionRecord]


class EncodedTopics(Encoded):
    """Encoded topics, each of which can be cut out. ``names`` has their names, in order."""

    __slots__ = ("_ends", "_faults", "_form", "names")

    def __init__(
        self, data: bytes, names: tuple[str, ...], ends: list[int], faults: list[int], form: int
    ) -> None:
        """``ends``: where each topic ends in ``data``. ``faults``: its partitions without a
        leader.
        """
        missing = sum(faults)
        errors = {_NO_LEADER: missing} if missing else NO_ERRORS
        super().__init__(data, len(names), errors)
        self.names = names
        self._ends = array("I", ends)
        self._faults = tuple(faults) if missing else None
        self._form = form

    @property
    def size(self) -> int:
        """The memory that the encoding takes, in bytes, approximately."""
        return len(self.data) + _OBJECTS_SIZE + _PER_TOPIC * len(self.names)

    def cut(self, at: int, operations: int | None = None) -> Encoded:
        """Return the topic at this position, with the bit field of authorized operations if it is
        given.
        """
        begin, end = self._ends[at - 1] if at else 0, self._ends[at]
        if operations is None or self._form < _OPERATIONS:
            data = self.data[begin:end]
        else:  # they are the last field; the tagged fields behind them are one byte
            after = end - (self._form >= _FLEXIBLE)
            data = b"".join(
                (self.data[begin : after - 4], _operations(operations), self.data[after:end])
            )
        missing = self._faults[at] if self._faults is not None else 0
        errors = {_NO_LEADER: missing} if missing else NO_ERRORS
        return Encoded(data, 1, errors)


class MetadataEncoder:
    """Encodes topics for one ``form`` of the response and one set of reachable ``nodes``: a
    partition whose leader is not among them has none, and its other replicas are offline.
    """

    def __init__(self, form: int, nodes: frozenset[int]) -> None:
        self.form = form
        self.nodes = nodes
        self._is_flexible = form >= _FLEXIBLE
        self._pack = struct.Struct(">hiii" if form >= _EPOCH else ">hii").pack
        self._ends_of_lines: dict[Any, bytes] = {}

    def encode(self, topics: Sequence[NamedPartitions]) -> Slices[EncodedTopics]:
        """Encode topics, in steps of some hundred partitions."""
        lines: list[bytes] = []
        faults: list[int] = []
        packed = 0
        for topic in topics:
            records, missing = topic.partitions, 0
            packed_lines: list[bytes] = []
            indexes = sorted(records)
            for begin in range(0, len(indexes), _STEP):
                if packed >= _STEP:
                    packed = 0
                    yield
                step = indexes[begin : begin + _STEP]
                missing += self._pack_lines(map(records.__getitem__, step), packed_lines)
                packed += len(step)
            lines.append(b"".join(packed_lines))
            faults.append(missing)
        parts: list[Any] = []
        marks: list[int] = []
        response = MetadataResponse()
        response.topics = _Topics(topics, lines, parts, marks)  # type: ignore[assignment]
        response.encode_parts(self.form, parts)
        sizes = [0, *accumulate(map(len, parts))]
        data = b"".join(parts[marks[0] : marks[-1]])
        ends = [sizes[mark] - sizes[marks[0]] for mark in marks[1:]]
        return EncodedTopics(data, tuple(topic.name for topic in topics), ends, faults, self.form)

    def _pack_lines(self, records: Iterable[PartitionRecord], parts: list[bytes]) -> int:
        """Append the lines of partitions to ``parts``. Return the number of those without a
        leader.
        """
        nodes, known, pack, add = self.nodes, self._ends_of_lines, self._pack, parts.append
        has_epoch = self.form >= _EPOCH
        faults = 0
        for record in records:
            replicas, isr, leader = record.replicas, record.isr, record.leader
            error = 0
            if leader not in nodes:
                faults += 1
                error, leader = _NO_LEADER, -1
            if has_epoch:
                add(pack(error, record.partition_id, leader, record.leader_epoch))
            else:
                add(pack(error, record.partition_id, leader))
            key: Any = tuple(replicas)
            if isr != replicas:
                key = key, tuple(isr)
            add(known.get(key) or self._end_of_line(key, replicas, isr))
        return faults

    def _end_of_line(self, key: Any, replicas: Sequence[int], isr: Sequence[int]) -> bytes:
        """Return the encoded replicas, in-sync and offline replicas, and tagged fields."""
        made = self._array(replicas) + self._array(isr)
        if self.form >= _OFFLINE:
            made += self._array([one for one in replicas if one not in self.nodes])
        if self._is_flexible:
            made += b"\0"
        if len(self._ends_of_lines) >= _LISTS_MAX:
            self._ends_of_lines.clear()
        self._ends_of_lines[key] = made
        return made

    def _array(self, numbers: Sequence[int]) -> bytes:
        count = len(numbers)
        length = varint(count + 1) if self._is_flexible else struct.pack(">i", count)
        return length + struct.pack(f">{count}i", *numbers)


class _Topics:
    """The array of topics as the generated encoder sees it. It notes in ``marks`` where each of
    them begins in the output ``parts``, and where the last one ends.
    """

    __slots__ = ("_lines", "_marks", "_parts", "_topics")

    def __init__(
        self,
        topics: Sequence[NamedPartitions],
        lines: Sequence[bytes],
        parts: list[Any],
        marks: list[int],
    ) -> None:
        self._topics = topics
        self._lines = lines
        self._parts = parts
        self._marks = marks

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[MetadataResponseTopic]:
        partitions = _Lines(self._parts)
        one = MetadataResponseTopic(partitions=partitions)  # type: ignore[arg-type]
        for topic, lines in zip(self._topics, self._lines, strict=True):
            self._marks.append(len(self._parts))
            partitions.count, partitions.lines = len(topic.partitions), lines
            one.name, one.topic_id = topic.name, topic.topic_id
            one.is_internal = topic.name in INTERNAL_TOPICS
            yield one
        self._marks.append(len(self._parts))


class _Lines:
    """The array of ``count`` partitions as the generated encoder sees it: ``lines`` are added to
    its output ``parts`` when it walks over the array.
    """

    __slots__ = ("_parts", "count", "lines")

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts
        self.count = 0
        self.lines = b""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        self._parts.append(self.lines)
        return _NOTHING


_NOTHING: Final[Iterator[Any]] = iter(())
