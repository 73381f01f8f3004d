"""Answers reads from a chain of log files: which bytes to send, and where a timestamp is.

It knows neither clients nor directories. Each call makes a few reads of some kilobytes in files
that were just scanned. Only a search by timestamp in a batch with differing timestamps decodes that
batch. Source: ``UnifiedLog.read``, ``fetchOffsetByTimestamp``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from gateway.log.reading.log_view import LogView
from gateway.log.segments.segment_slice import SegmentSlice, Slot
from gateway.ports.services import Chunk, FileRange, OffsetAt, OffsetOutOfRange, Read
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import OpenFile
from kwire.records.batch import decode_batch
from kwire.records.header import BATCH_OVERHEAD, read_header

_OFFSET: Final = struct.Struct(">q")
#: Maximum batches of a snapshot prefix in one read: each takes two chunks of the response.
_PREFIX_BATCHES_MAX: Final = 512


def content(chunks: Sequence[Chunk]) -> bytes:
    """Return the bytes of a :class:`gateway.ports.services.Read`. Raises OSError."""
    return b"".join(
        os.pread(one.fd, one.length, one.position) if isinstance(one, FileRange) else bytes(one)
        for one in chunks
    )


class _FileHolder:
    """Keeps files open until it is called or garbage collected."""

    __slots__ = ("_files",)

    def __init__(self, files: list[OpenFile]) -> None:
        self._files = files

    def __call__(self) -> None:
        self._files = []


def read(view: LogView, offset: int, max_bytes: int) -> Read:
    """Return whole batches from the one that holds ``offset``, as
    ``gateway.ports.services.Partition.read``.

    Raises OffsetOutOfRange, OSError.
    """
    if not view.start_offset <= offset <= view.end_offset:
        raise OffsetOutOfRange(f"{offset} is not within {view.start_offset} to {view.end_offset}")
    chunks: list[Chunk] = []
    files: list[OpenFile] = []
    size = 0
    at = view.slice_at(offset) if offset < view.end_offset else len(view.slices)
    for piece in view.slices[at:]:
        if files and _begins_below(piece):
            break
        first = piece.slot_of(offset) if not files else None
        if not files and first is None and view.is_compacted:
            continue
        if not files and first is None:
            break  # the file was just truncated: return nothing until the next scan
        start = first.position if first else piece.start
        least = start + first.size if first else start
        end = max(least, piece.boundary(start + max_bytes - size))
        taken = _take(piece, start, end, chunks)
        size += taken
        files.append(piece.file)
        if start + taken < piece.end:
            break
    return Read(chunks, size, _FileHolder(files))


def _begins_below(piece: SegmentSlice) -> bool:
    """Whether the first batch of a slice has records below it: the log starts at a snapshot that
    ends inside that batch, and offsets below the start are the snapshot's.

    Clients leave out records below the offset that they fetch, but only of the first batch of an
    answer, so such a batch has to be the first.
    """
    return piece.first_offset < piece.start_offset


def end_of_read(view: LogView, offset: int, size: int) -> int:
    """Return the offset behind the batches of a read of ``size`` bytes at ``offset``. Raises
    OSError.
    """
    if not view.start_offset <= offset < view.end_offset:
        return offset
    at = view.slice_at(offset)
    slot = view.slices[at].slot_of(offset)
    start = view.slices[at].start if slot is None else slot.position
    for piece in view.slices[at:]:
        if size < piece.end - start:
            following = next(iter(piece.slots(start + size)), None)
            return view.end_offset if following is None else following.offset + piece.shift
        size -= piece.end - start
        start = 0
    return view.end_offset


def bytes_available(view: LogView, offset: int, limit: int) -> int:
    """Return the number of record bytes from ``offset`` to the end, at most ``limit``."""
    if not view.start_offset <= offset < view.end_offset:
        return 0
    at = view.slice_at(offset)
    first = view.slices[at].slot_of(offset)
    if first is None and not view.is_compacted:
        return 0
    size = view.slices[at].end - first.position if first is not None else 0
    for piece in view.slices[at + 1 :]:
        if size >= limit:
            break
        size += piece.end - piece.start
    return min(size, limit)


def offset_for_timestamp(view: LogView, timestamp: int) -> OffsetAt | None:
    """Return the first record with a timestamp of at least ``timestamp`` ms
    (``UnifiedLog.fetchOffsetByTimestamp``).
    """
    return next(_records_since(view, timestamp), None)


def max_timestamp(view: LogView) -> OffsetAt | None:
    """Return the first record with the largest timestamp (KIP-734)."""
    largest = max((piece.max_timestamp for piece in view.slices), default=-1)
    return next(_records_since(view, largest), None) if largest >= 0 else None


# --- bytes
# ------------------------------------------------------------------------------------------------


def _take(piece: SegmentSlice, start: int, end: int, chunks: list[Chunk]) -> int:
    """Add the bytes of ``piece`` from ``start`` to ``end``, both between batches; return their
    number.
    """
    if end <= start:
        return 0
    if piece.shift == 0:
        chunks.append(FileRange(piece.file.fd, start, end - start))
        return end - start
    taken = 0
    for number, slot in enumerate(piece.slots(start)):
        if slot.position + slot.size > end or number == _PREFIX_BATCHES_MAX:
            break
        # The CRC does not cover the base offset: replacing these eight bytes moves a batch of the
        # snapshot to its offset in the log.
        chunks.append(_OFFSET.pack(slot.offset + piece.shift))
        chunks.append(
            FileRange(piece.file.fd, slot.position + _OFFSET.size, slot.size - _OFFSET.size)
        )
        taken += slot.size
    return taken


# --- timestamps
# ------------------------------------------------------------------------------------------------


def _records_since(view: LogView, timestamp: int) -> Iterator[OffsetAt]:
    """Yield the first record at or after ``timestamp`` of each batch that has one."""
    for piece in view.slices:
        if piece.max_timestamp >= timestamp:
            for slot in piece.slots_since(timestamp):
                if found := _record_in(piece, slot, timestamp):
                    yield found


def _record_in(piece: SegmentSlice, slot: Slot, timestamp: int) -> OffsetAt | None:
    """Return the first record of a batch at or after ``timestamp`` and not below the part's start.

    The base timestamp is that of the first record (``DefaultRecordBatch``), and all records of a
    metadata batch share it, so that usually no record is decoded.
    """
    head = piece.file.read(slot.position, BATCH_OVERHEAD)
    if len(head) < BATCH_OVERHEAD:
        return None
    header = read_header(head)
    first = slot.offset + piece.shift
    if (
        header.base_timestamp >= timestamp
        and header.delete_horizon_ms is None
        and header.record_count > header.last_offset_delta
        and first >= piece.start_offset
    ):
        return OffsetAt(first, header.base_timestamp, header.partition_leader_epoch)
    try:
        records = decode_batch(piece.file.read(slot.position, slot.size)).records
    except DecodeError:
        # The CRC is right, but the records cannot be decoded (an unknown compression): the batch as
        # a whole is the best answer.
        return OffsetAt(
            max(first, piece.start_offset), header.max_timestamp, header.partition_leader_epoch
        )
    for record in records:
        offset = record.offset + piece.shift
        if record.timestamp >= timestamp and offset >= piece.start_offset:
            return OffsetAt(offset, record.timestamp, header.partition_leader_epoch)
    return None
