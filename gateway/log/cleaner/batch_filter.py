"""Decides which records of a batch stay when a log is compacted, and writes the batch without the
others: with its offsets, its sequence numbers and its epoch.

It reads no file. Source: ``Cleaner.cleanInto``, ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.records.batch import decode_records
from kwire.records.encode import encode_batch
from kwire.records.record import Compression, TimestampType

if TYPE_CHECKING:
    from gateway.log.cleaner.cleaned_transactions import CleanedTransactions
    from gateway.log.cleaner.offset_map import OffsetMap
    from kwire.records.header import BatchHeader
    from kwire.records.record import Record


class LastRecord(NamedTuple):
    """The newest batch of a producer that is still active: its last offset, None if the newest is a
    marker; and the producer's epoch.
    """

    last_data_offset: int | None
    epoch: int


class BatchFilter:
    """The batches of one log, in order. The last one of the round ends at ``end``; times in ms."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastRecord],
        end: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._end = end
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def filter(self, data: bytes, header: BatchHeader) -> bytes:
        """Return what is left of the batch at ``header.position``; nothing if it goes. Raises
        DecodeError.
        """
        records: Sequence[Record]
        if header.is_control:
            records = decode_records(data, header)
            is_over = self._transactions.is_marker_of_nothing(header, records)
            kept = [] if is_over and self._is_past_horizon(header) else records
        elif self._transactions.is_aborted(header):
            is_over, records, kept = False, (), []
        else:
            is_over, records = False, decode_records(data, header)
            kept = [record for record in records if self._keeps(header, record)]
        if not kept:
            # It stays, empty, for its sequence number, or for the offset at which the log ends.
            is_needed = self._is_last_of_producer(header) or header.next_offset == self._end
            return _emptied(header) if is_needed else b""
        needs_horizon = header.delete_horizon_ms is None and (
            is_over or any(record.value is None for record in kept)
        )
        if len(kept) == len(records) and not needs_horizon:
            return data[header.position : header.end]
        horizon = header.delete_horizon_ms
        if needs_horizon:
            horizon = self._now_ms + self._delete_retention_ms
        return _rebuilt(header, kept, horizon)

    def _keeps(self, header: BatchHeader, record: Record) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None:
            return False
        if record.offset < self._offsets.get(record.key):
            return False
        return record.value is not None or not self._is_past_horizon(header)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        horizon = header.delete_horizon_ms
        return horizon is not None and horizon <= self._now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        # Its epoch fences older instances of the producer.
        return header.is_control and header.producer_epoch == last.epoch


def _emptied(header: BatchHeader) -> bytes:
    """Return the batch without records (``DefaultRecordBatch.writeEmptyHeader``)."""
    return _encoded(header, (), Compression.NONE, -1, header.max_timestamp, is_horizon=False)


def _rebuilt(header: BatchHeader, records: Sequence[Record], horizon: int | None) -> bytes:
    """Return the batch with these records alone. Its base timestamp is ``horizon``, if it has
    one.
    """
    appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    latest = header.max_timestamp if appended else max(record.timestamp for record in records)
    base = records[0].timestamp if horizon is None else horizon
    return _encoded(
        header, records, header.compression, base, latest, is_horizon=horizon is not None
    )


def _encoded(
    header: BatchHeader,
    records: Sequence[Record],
    compression: Compression,
    base_timestamp: int,
    max_timestamp: int,
    *,
    is_horizon: bool,
) -> bytes:
    return encode_batch(
        records,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        compression=compression,
        timestamp_type=header.timestamp_type,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        delete_horizon=is_horizon,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
