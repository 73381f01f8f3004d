"""Writes the values of PartitionRecords and PartitionChangeRecords faster than one by one.

The records of an image share their lists (``kwire.cluster.interned_lists``), and most differ in
topic and number alone. The bytes behind these two are encoded once for all records that have the
same lists, by identity, and the same numbers.
"""

from __future__ import annotations

import struct
from typing import Final

from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.records.metadata import encode_metadata_record

#: Bytes of the frame, and the end of the first two fields, number and topic.
_FRAME, _REST = 3, 23
_pack: Final = struct.Struct(">i16s").pack
#: Most values that are kept, each with a record that holds the lists by whose identity it is found.
_KEPT: Final = 32_768


class PartitionWriter:
    """The lists of the records are not to be changed while it is used."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[int, ...], tuple[PartitionRecord | PartitionChangeRecord, bytes]
        ] = {}

    def write(self, record: PartitionRecord, version: int) -> bytes:
        """Return the value of the record. Raises EncodeError, UnsupportedVersion."""
        key = (
            version,
            record.leader,
            record.leader_recovery_state,
            record.leader_epoch,
            record.partition_epoch,
            id(record.replicas),
            id(record.isr),
            id(record.removing_replicas),
            id(record.adding_replicas),
            id(record.directories),
            id(record.eligible_leader_replicas),
            id(record.last_known_elr),
            id(record.unknown_tags),
        )
        return self._value(key, record, version)

    def write_change(self, record: PartitionChangeRecord, version: int) -> bytes:
        """As :meth:`write`."""
        key = (
            version,
            record.leader,
            record.leader_recovery_state,
            id(record.isr),
            id(record.replicas),
            id(record.removing_replicas),
            id(record.adding_replicas),
            id(record.directories),
            id(record.eligible_leader_replicas),
            id(record.last_known_elr),
            id(record.unknown_tags),
        )
        return self._value(key, record, version)

    def _value(
        self,
        key: tuple[int, ...],
        record: PartitionRecord | PartitionChangeRecord,
        version: int,
    ) -> bytes:
        same = self._known.get(key)
        if same is not None:
            value = same[1]
            return value[:_FRAME] + _pack(record.partition_id, record.topic_id) + value[_REST:]
        value = encode_metadata_record(record, version)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = record, value
        return value
