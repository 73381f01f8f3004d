"""Reads the values of PartitionRecords and PartitionChangeRecords faster than one by one, into
records that share their lists.

Partitions differ in topic and number, and little else: of a million values only a few thousand have
different bytes after these two fields. The rest of a record is therefore decoded once for all
values that have the same.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from kwire.cluster.interned_lists import copy_partition, copy_partition_change, share
from kwire.message import bare
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.records.metadata import decode_metadata_record
from kwire.records.uniform_records import UniformRecords
from kwire.uuid import ZERO_UUID, Uuid

_T = TypeVar("_T")

#: The frames of PartitionRecords (``MetadataRecordSerde``): frame version 1, type 3, the version.
PARTITION_FRAMES: Final = frozenset(
    bytes((1, PartitionRecord.API_KEY, version)) for version in PartitionRecord.VERSIONS
)
#: Likewise of PartitionChangeRecords, which begin with the same two fields.
CHANGE_FRAMES: Final = frozenset(
    bytes((1, PartitionChangeRecord.API_KEY, version)) for version in PartitionChangeRecord.VERSIONS
)
_number: Final = struct.Struct(">i").unpack_from
_FRAME, _TOPIC, _REST = 3, 7, 23
#: Bytes of the smallest value that has a number and a topic.
PARTITION_BYTES_MIN: Final = _REST + 1
#: The beginning of a value in the format of :mod:`struct`: the frame, the number and the topic.
_BEGINNING: Final = f"{_FRAME}xi16s"
_pack: Final = struct.Struct(">i16s").pack
_new: Final = bare(PartitionRecord)
#: Maximum number of kept remainders, and of bytes of each.
_KEPT: Final = 32_768
_REST_BYTES_MAX: Final = 512


class PartitionReader:
    """Decodes the values. The caller must not change the records, because they share lists."""

    def __init__(self) -> None:
        self._read: dict[bytes, dict[bytes, PartitionRecord]] = {
            frame: {} for frame in PARTITION_FRAMES
        }
        self._changes: dict[bytes, dict[bytes, PartitionChangeRecord]] = {
            frame: {} for frame in CHANGE_FRAMES
        }
        self._topic_id = ZERO_UUID

    def read(self, value: bytes) -> PartitionRecord:
        """Decode a value that begins with one of :data:`PARTITION_FRAMES`. Raises DecodeError."""
        known, rest = self._read[value[:_FRAME]], value[_REST:]
        same = known.get(rest)
        if same is None:
            return self._read_first(value, known, rest)
        record = copy_partition(same)
        [record.partition_id] = _number(value, _FRAME)
        record.topic_id = self._topic(value)
        return record

    def read_change(self, value: bytes) -> PartitionChangeRecord:
        """Decode a value that begins with one of :data:`CHANGE_FRAMES`. Raises DecodeError."""
        _, number, same = self.read_shared_change(value)
        change = copy_partition_change(same)
        change.partition_id = number
        change.topic_id = self._topic(value)
        return change

    def read_shared_change(self, value: bytes) -> tuple[bytes, int, PartitionChangeRecord]:
        """As :meth:`read_change`, without a record of its own: (topic id, partition, a record that
        may name another partition). Raises DecodeError.
        """
        known, rest = self._changes[value[:_FRAME]], value[_REST:]
        change = known.get(rest)
        if change is None:
            decoded = decode_metadata_record(value)[2]
            assert isinstance(decoded, PartitionChangeRecord), "the frame says so"
            change = decoded
            _keep(known, rest, change)
        return value[_TOPIC:_REST], _number(value, _FRAME)[0], change

    def read_run(self, run: UniformRecords) -> list[tuple[Uuid, dict[int, PartitionRecord]]]:
        """Decode the values of ``run``, which begin with one of :data:`PARTITION_FRAMES`: the
        partitions of each topic by number, in the order of the records. Raises DecodeError.
        """
        known, frame = self._read[run.frame], run.frame
        found: list[tuple[Uuid, dict[int, PartitionRecord]]] = []
        new, now, topic_id, records = _new, None, ZERO_UUID, dict[int, PartitionRecord]()
        for number, topic, rest in run.unpack(_BEGINNING):
            if topic != now:
                now, topic_id, records = topic, Uuid(topic), {}
                found.append((topic_id, records))
            same = known.get(rest)
            if same is None:
                value = frame + _pack(number, topic) + rest
                same = self._read_first(value, known, rest)
            # A copy of ``same``, written out: a million of them are made here.
            record = new()
            record.partition_id = number
            record.topic_id = topic_id
            record.replicas = same.replicas
            record.isr = same.isr
            record.removing_replicas = same.removing_replicas
            record.adding_replicas = same.adding_replicas
            record.leader = same.leader
            record.leader_recovery_state = same.leader_recovery_state
            record.leader_epoch = same.leader_epoch
            record.partition_epoch = same.partition_epoch
            record.directories = same.directories
            record.eligible_leader_replicas = same.eligible_leader_replicas
            record.last_known_elr = same.last_known_elr
            record.unknown_tags = same.unknown_tags
            records[number] = record
        return found

    def _read_first(
        self, value: bytes, known: dict[bytes, PartitionRecord], rest: bytes
    ) -> PartitionRecord:
        record = decode_metadata_record(value)[2]
        assert isinstance(record, PartitionRecord), "the frame says so"
        share(record)
        record.topic_id = self._topic(value)
        _keep(known, rest, record)
        return record

    def _topic(self, value: bytes) -> Uuid:
        """The topic of a value; one object while it is that of the value before."""
        topic_id = value[_TOPIC:_REST]
        if topic_id != self._topic_id:
            self._topic_id = Uuid(topic_id)
        return self._topic_id


def _keep(known: dict[bytes, _T], rest: bytes, record: _T) -> None:
    if len(known) >= _KEPT:
        known.clear()
    if len(rest) <= _REST_BYTES_MAX:
        known[rest] = record
