"""Reads the values of PartitionChangeRecords faster than one by one: most records of a busy log are
these.

They differ in their partitions, and little else, so the rest of a value is decoded once for all
that have the same. ``kwire.cluster.partition_reader`` does it for PartitionRecords.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.records import decode_metadata_record

#: The frames of PartitionChangeRecords (``MetadataRecordSerde``): frame version 1, type 5, the
#: version.
FRAMES: Final = frozenset(
    bytes((1, PartitionChangeRecord.API_KEY, version)) for version in PartitionChangeRecord.VERSIONS
)
_number: Final = struct.Struct(">i").unpack_from
_FRAME, _TOPIC, _REST = 3, 7, 23
#: Bounds of what is kept: remainders, and bytes of each.
_KEPT: Final = 32_768
_REST_BYTES_MAX: Final = 512


class ChangeReader:
    """Its records are not to be changed."""

    def __init__(self) -> None:
        self._read: dict[bytes, dict[bytes, Any]] = {frame: {} for frame in FRAMES}

    def read(self, value: bytes) -> tuple[bytes, int, Any]:
        """Decode a value that begins with one of :data:`FRAMES`: (topic id, partition, a record
        that may name another partition). Raises DecodeError.
        """
        known, rest = self._read[value[:_FRAME]], value[_REST:]
        change = known.get(rest)
        if change is None:
            change = decode_metadata_record(value)[2]
            if len(known) >= _KEPT:
                known.clear()
            if len(rest) <= _REST_BYTES_MAX:
                known[rest] = change
        return value[_TOPIC:_REST], _number(value, _FRAME)[0], change
