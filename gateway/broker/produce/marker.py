"""Makes and reads the control batches that end a transaction on a partition
(``MemoryRecords.withEndTransactionMarker``, ``EndTransactionMarker``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.produce.validation import ProducedBatch
from kwire.errors import DecodeError
from kwire.messages.end_txn_marker import EndTxnMarker
from kwire.records.batch import decode_records
from kwire.records.control import decode_control_record, encode_control_record
from kwire.records.encode import encode_batch
from kwire.records.header import BATCH_OVERHEAD, read_header

if TYPE_CHECKING:
    from kwire.records.header import BatchHeader, Buffer

#: The record of a marker takes some 20 bytes; later versions of Kafka may add fields.
_MARKER_BYTES_MAX = 64 * 1024


class Marker(NamedTuple):
    """The record of a control batch that ends a transaction."""

    is_commit: bool
    coordinator_epoch: int


def marker_batch(
    producer_id: int, producer_epoch: int, marker: Marker, now_ms: int
) -> ProducedBatch:
    """Return the batch that ends the transaction of a producer."""
    record = encode_control_record(
        "COMMIT" if marker.is_commit else "ABORT",
        EndTxnMarker(coordinator_epoch=marker.coordinator_epoch),
        timestamp=now_ms,
    )
    data = bytearray(
        encode_batch(
            [record],
            is_transactional=True,
            is_control=True,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
    )
    return ProducedBatch(data, read_header(data), -1)


def read_marker(header: BatchHeader, data: Buffer) -> Marker | None:
    """Return the marker in a batch at ``header.position`` of ``data``; None if it has none: the
    batch has no control records, other ones, or the cleaner removed its record.
    """
    if not header.is_control or header.record_count != 1 or header.size > _MARKER_BYTES_MAX:
        return None
    batch = bytes(memoryview(data)[header.position : header.end])
    try:
        (record,) = decode_records(
            batch, header._replace(position=0), limit=_MARKER_BYTES_MAX, budget=BATCH_OVERHEAD
        )
        found = decode_control_record(record)
    except (DecodeError, ValueError):
        return None
    if not isinstance(found.message, EndTxnMarker):
        return None
    return Marker(found.name == "COMMIT", found.message.coordinator_epoch)
