"""Reads the first and last control record of a snapshot file: its header, and its footer (KIP-630).

Kafka writes the footer last, before the file gets its name, so a snapshot without one is
unfinished.
"""

from __future__ import annotations

import struct
from typing import Final

from gateway.base.sizes import MIB
from gateway.log.segments.batch_index import BatchIndex
from kwire.errors import DecodeError
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records.batch import decode_batch
from kwire.records.control import decode_control_record
from kwire.records.record import Record

#: The key of a control record: version and type (``ControlRecordType``).
_CONTROL_KEY: Final = struct.Struct(">hh")
_SNAPSHOT_HEADER: Final = 3
_SNAPSHOT_FOOTER: Final = 4
#: A footer takes a few bytes. The header's batch also holds the voters, 100 KB for a thousand.
_CONTROL_BYTES_MAX: Final = MIB


def has_header(index: BatchIndex) -> bool:
    """Return whether the indexed snapshot begins with its header. Raises OSError."""
    record = _control_record(index, 0)
    return record is not None and _control_type(record) == _SNAPSHOT_HEADER


def has_footer(index: BatchIndex) -> bool:
    """Return whether the last batch of the indexed snapshot holds its footer. Raises OSError."""
    record = _control_record(index, -1)
    return record is not None and _control_type(record) == _SNAPSHOT_FOOTER


def last_contained_log_timestamp(index: BatchIndex) -> int | None:
    """Return the timestamp (ms) of the last record that the snapshot replaces; None without a
    header. Raises OSError.
    """
    record = _control_record(index, 0)
    if record is None:
        return None
    try:
        message = decode_control_record(record).message
    except DecodeError:
        return None
    return (
        message.last_contained_log_timestamp if isinstance(message, SnapshotHeaderRecord) else None
    )


def _control_record(index: BatchIndex, at: int) -> Record | None:
    """Return the first (0) or last (-1) record of the snapshot; None if its batch is no control
    batch, or too large for one.
    """
    whole = index.slice()
    if whole is None:
        return None
    # The last batch of a file lies in its last block.
    slots = whole.slots(0 if at == 0 else index.positions[-1])
    slot = next(slots, None) if at == 0 else max(slots, default=None)
    # Before the read: the batch may be one of records, with 8 MiB.
    if slot is None or slot.size > _CONTROL_BYTES_MAX:
        return None
    try:
        batch = decode_batch(index.file.read(slot.position, slot.size))
    except DecodeError:
        return None
    return batch.records[at] if batch.header.is_control and batch.records else None


def _control_type(record: Record) -> int | None:
    # ``ControlRecordType.parseTypeId`` takes a longer key, too; Kafka writes none.
    if record.key is None or len(record.key) != _CONTROL_KEY.size:
        return None
    return int(_CONTROL_KEY.unpack(record.key)[1])
