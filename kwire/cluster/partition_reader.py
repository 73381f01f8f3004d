"""Reads the values of PartitionRecords faster than one by one, into records that share their lists.

The partitions of a cluster differ in their topics and numbers, and little else: of a million values
a few thousand have different bytes behind these two. The rest of a record is therefore decoded once
for all values that have the same.
"""

from __future__ import annotations

import struct
from typing import Final

from kwire.cluster.sharing import share, twin
from kwire.messages.partition_record import PartitionRecord
from kwire.records.metadata import decode_metadata_record
from kwire.uuid import ZERO_UUID, Uuid

#: The frames of PartitionRecords (``MetadataRecordSerde``): frame version 1, type 3, the version.
PARTITION_FRAMES: Final = frozenset(
    bytes((1, PartitionRecord.API_KEY, version)) for version in PartitionRecord.VERSIONS
)
_number: Final = struct.Struct(">i").unpack_from
_FRAME, _TOPIC, _REST = 3, 7, 23
#: Bounds of what is kept: remainders, and bytes of each.
_KEPT: Final = 32_768
_REST_BYTES_MAX: Final = 512


class PartitionReader:
    """Its records are not to be changed: they share lists with others."""

    def __init__(self) -> None:
        self._read: dict[bytes, dict[bytes, PartitionRecord]] = {
            frame: {} for frame in PARTITION_FRAMES
        }
        self._topic_id = ZERO_UUID

    def read(self, value: bytes) -> PartitionRecord:
        """Decode a value that begins with one of :data:`PARTITION_FRAMES`. Raises DecodeError."""
        known, rest = self._read[value[:_FRAME]], value[_REST:]
        same = known.get(rest)
        if same is None:
            return self._read_first(value, known, rest)
        record = twin(same)
        [record.partition_id] = _number(value, _FRAME)
        record.topic_id = self._topic(value)
        return record

    def _read_first(
        self, value: bytes, known: dict[bytes, PartitionRecord], rest: bytes
    ) -> PartitionRecord:
        record = decode_metadata_record(value)[2]
        assert isinstance(record, PartitionRecord), "the frame says so"
        share(record)
        record.topic_id = self._topic(value)
        if len(known) >= _KEPT:
            known.clear()
        if len(rest) <= _REST_BYTES_MAX:
            known[rest] = record
        return record

    def _topic(self, value: bytes) -> Uuid:
        """The topic of a value; one object while it is that of the value before."""
        topic_id = value[_TOPIC:_REST]
        if topic_id != self._topic_id:
            self._topic_id = Uuid(topic_id)
        return self._topic_id
