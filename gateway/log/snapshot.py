"""The two ends of a snapshot file: its header, and the footer that Kafka writes last, before the file gets its name (KIP-630)."""

from __future__ import annotations

import struct
from typing import Final

from gateway.log.batch_index import BatchIndex
from kwire.errors import DecodeError
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records.batch import decode_batch
from kwire.records.control import decode_control_record
from kwire.records.record import Record

#: The key of a control record: version and type (``ControlRecordType``).
_CONTROL_KEY: Final = struct.Struct(">hh")
_SNAPSHOT_HEADER: Final = 3
_SNAPSHOT_FOOTER: Final = 4
#: A footer is a few bytes; a header's batch holds the voters too, and a thousand take about 100 KB.
_CONTROL_BYTES_MAX: Final = 1024 * 1024


def has_header(index: BatchIndex) -> bool:
    """Whether the indexed snapshot begins with its header. Raises OSError."""
    record = _control_record(index, 0)
    return record is not None and _control_type(record) == _SNAPSHOT_HEADER


def has_footer(index: BatchIndex) -> bool:
    """Whether the last batch of the indexed snapshot holds its footer. Raises OSError."""
    record = _control_record(index, -1)
    return record is not None and _control_type(record) == _SNAPSHOT_FOOTER


def last_contained_log_timestamp(index: BatchIndex) -> int | None:
    """Timestamp (ms) of the last record that the indexed snapshot stands for; None if no header tells. Raises OSError."""
    record = _control_record(index, 0)
    if record is None:
        return None
    try:
        message = decode_control_record(record).message
    except DecodeError:
        return None
    return message.last_contained_log_timestamp if isinstance(message, SnapshotHeaderRecord) else None


def _control_record(index: BatchIndex, at: int) -> Record | None:
    """The first (0) or the last (-1) record of the snapshot, None if it is not in a control batch of the size of one."""
    if not index.positions:
        return None
    block = 0 if at == 0 else len(index.positions) - 1
    slots = index.slots(block, index.end)
    if not slots or slots[at].size > _CONTROL_BYTES_MAX:
        return None
    try:
        batch = decode_batch(index.file.read(slots[at].position, slots[at].size))
    except DecodeError:
        return None
    return batch.records[at] if batch.header.is_control and batch.records else None


def _control_type(record: Record) -> int | None:
    if record.key is None or len(record.key) != _CONTROL_KEY.size:
        return None
    return int(_CONTROL_KEY.unpack(record.key)[1])
