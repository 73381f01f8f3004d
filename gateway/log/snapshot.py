"""The two ends of a snapshot file: its header, and the footer that Kafka writes last, before the file gets its name (KIP-630)."""

from __future__ import annotations

import struct
from typing import Final

from gateway.log.batch_index import BatchIndex
from kwire.errors import DecodeError
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records.batch import decode_batch
from kwire.records.control import decode_control_record

#: The key of a control record: version and type (``ControlRecordType``).
_CONTROL_KEY: Final = struct.Struct(">hh")
_SNAPSHOT_FOOTER: Final = 4
#: A footer's batch has one record of a few bytes; whatever is larger is none.
_FOOTER_BYTES_MAX: Final = 4096
#: A header's batch holds the voters too: a thousand take about 100 KB.
_HEADER_BYTES_MAX: Final = 1024 * 1024


def has_footer(index: BatchIndex) -> bool:
    """Whether the last batch of the indexed snapshot holds its footer. Raises OSError."""
    if not index.positions:
        return False
    last = index.slots(len(index.positions) - 1, index.end)[-1:]
    if not last or last[0].size > _FOOTER_BYTES_MAX:
        return False
    try:
        batch = decode_batch(index.file.read(last[0].position, last[0].size))
    except DecodeError:
        return False
    key = batch.records[-1].key if batch.records else None
    if not batch.header.is_control or key is None or len(key) != _CONTROL_KEY.size:
        return False
    _, kind = _CONTROL_KEY.unpack(key)
    return bool(kind == _SNAPSHOT_FOOTER)


def read_snapshot_header(index: BatchIndex) -> SnapshotHeaderRecord | None:
    """The first record of the indexed snapshot if it is a SNAPSHOT_HEADER. Raises OSError."""
    first = index.slots(0, index.end)[:1] if index.positions else []
    if not first or first[0].size > _HEADER_BYTES_MAX:
        return None
    try:
        batch = decode_batch(index.file.read(first[0].position, first[0].size))
        message = decode_control_record(batch.records[0]).message if batch.header.is_control and batch.records else None
    except DecodeError:
        return None
    return message if isinstance(message, SnapshotHeaderRecord) else None
