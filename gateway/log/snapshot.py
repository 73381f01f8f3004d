"""Whether a snapshot file is whole: Kafka writes the footer last, and renames the file only then (KIP-630)."""

from __future__ import annotations

import struct
from typing import Final

from gateway.log.batch_index import BatchIndex
from kwire.errors import DecodeError
from kwire.records.batch import decode_batch

#: The key of a control record: version and type (``ControlRecordType``).
_CONTROL_KEY: Final = struct.Struct(">hh")
_SNAPSHOT_FOOTER: Final = 4
#: A footer's batch has one record of a few bytes; whatever is larger is none.
_FOOTER_BYTES_MAX: Final = 4096


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
