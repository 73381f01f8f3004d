"""Checks that batches are whole, undamaged and consecutive, before a log stores or keeps them.

It decodes no record: a record that cannot be decoded is replicated as it is, as in Kafka. Source:
``UnifiedLog.analyzeAndValidateRecords`` for a follower, and ``LogValidator``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

import crc32c

from gateway.base.sizes import MIB
from kwire.errors import DecodeError
from kwire.metadata_log.reader import BATCH_BYTES_MAX
from kwire.records.header import (
    BATCH_OVERHEAD,
    CRC_START,
    LOG_OVERHEAD,
    BatchHeader,
    Buffer,
)

#: Bytes read at once from a file.
_CHUNK_BYTES: Final = MIB
#: Base offset ... max timestamp; the producer id and epoch behind it are unused by KRaft.
HEADER: Final = struct.Struct(">qiibIhiqq")


class Batch(NamedTuple):
    """A checked batch: where it is in the input (bytes), and what a log needs to know about it."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int
    max_timestamp: int  #: ms, -1 without one


def batch_of(header: BatchHeader) -> Batch:
    """Return the batch that has this header, and was checked elsewhere."""
    base, length, epoch, _, _, _, delta, _, max_timestamp, *_, position = header
    return Batch(position, LOG_OVERHEAD + length, base, base + delta, epoch, max_timestamp)


class Tail(NamedTuple):
    """The end of a log: the base offset that the next batch must have (-1: any), and the lowest
    epoch that it may have. ``gaps``: it may have a larger offset, since the log is compacted.
    """

    next_offset: int
    epoch: int
    gaps: bool = False


class Checked(NamedTuple):
    """The good batches at the front of the input, the tail after them, and the fault of the batch
    behind them.

    ``fault`` is None if the input ends inside a batch. ``data`` is the input, from the first batch
    on, where it was read from a file.
    """

    batches: list[Batch]
    tail: Tail
    fault: DecodeError | None
    data: bytes = b""

    @property
    def end(self) -> int:
        """Position behind the last good batch, 0 without one."""
        return self.batches[-1].position + self.batches[-1].size if self.batches else 0


class Readable(Protocol):
    """A file that can be scanned."""

    def read(self, position: int, length: int) -> bytes: ...


def check_batches(data: Buffer, tail: Tail, base: int = 0, *, crc_checked: bool = False) -> Checked:
    """Check the batches of format 2 in ``data``: length, CRC-32C, offsets without a gap, epochs
    that never decrease.

    A leader never writes a gap, so it is an error unless the log may be compacted.
    ``data`` is at position ``base`` of the file it was read from. ``crc_checked``: the caller has
    checked each CRC.
    """
    unpack, crc_of, view, limit = HEADER.unpack_from, crc32c.crc32c, memoryview(data), len(data)
    (expected, current, gaps), position = tail, 0
    batches: list[Batch] = []
    add, new = batches.append, tuple.__new__
    fault = None
    while limit - position >= BATCH_OVERHEAD:
        offset, length, epoch, magic, crc, _, delta, _, max_timestamp = unpack(view, position)
        size = LOG_OVERHEAD + length
        if magic != 2 or size < BATCH_OVERHEAD:
            fault = bad_header(magic, length, base + position)
            break
        # No fault: the end of a Fetch response, or of a file that is being written.
        if size > limit - position:
            break
        # The header is checked before the CRC, because the CRC covers as many bytes as the length
        # says, and a damaged length would read far beyond the batch.
        if not crc_checked and crc_of(view[position + CRC_START : position + size]) != crc:
            fault = wrong_crc(size, offset, base + position)
            break
        if (
            (offset != expected and expected >= 0 and (offset < expected or not gaps))
            or offset < 0
            or delta < 0
            or epoch < current
        ):
            fault = misplaced(offset, delta, epoch, Tail(expected, current), base + position)
            break
        # ``tuple.__new__`` is what ``Batch(...)`` does, without its Python-level call: this loop
        # reads every batch of a segment at start.
        add(new(Batch, (base + position, size, offset, offset + delta, epoch, max_timestamp)))
        expected, current, position = offset + delta + 1, epoch, position + size
    return Checked(batches, Tail(expected, current, gaps), fault)


def check_file(file: Readable, position: int, size: int, tail: Tail) -> Iterator[Checked]:
    """Check a file from ``position`` to ``size``, one chunk at a time; positions are those in the
    file.

    Ends after the last chunk, or after the first fault. Raises OSError.
    """
    length = _CHUNK_BYTES
    while position < size:
        data = file.read(position, min(length, size - position))
        checked = check_batches(data, tail, position)
        # No batch ends within the chunk, which is full: the batch is longer than the chunk.
        if not checked.batches and checked.fault is None and len(data) == length:
            length = max(length, _size_of(data))  # one batch that is larger than a chunk
            if length > len(data) and position + length <= size:
                if length <= BATCH_BYTES_MAX:
                    continue
                checked = checked._replace(fault=_too_large(length, position))
        yield checked._replace(data=data)
        if not checked.batches or checked.fault is not None:
            return
        position, tail, length = checked.end, checked.tail, _CHUNK_BYTES


def batch_at(file: Readable, position: int) -> Batch | None:
    """Return the batch that begins at ``position`` by its header alone; None if none does. Raises
    OSError.
    """
    data = file.read(position, BATCH_OVERHEAD)
    if len(data) < BATCH_OVERHEAD:
        return None
    offset, length, epoch, magic, _, _, delta, _, max_timestamp = HEADER.unpack_from(data)
    if magic != 2:
        return None
    return Batch(position, LOG_OVERHEAD + length, offset, offset + delta, epoch, max_timestamp)


def _size_of(data: bytes) -> int:
    return LOG_OVERHEAD + int(HEADER.unpack_from(data)[1])


def bad_header(magic: int, length: int, position: int) -> DecodeError:
    """Return the fault of a batch with another format, or a length that is too short."""
    if magic != 2:
        reason = f"unknown batch format (magic) {magic}; this log has 2"
        return DecodeError(reason, path="Magic", offset=position, rule="batch-magic")
    reason = f"a batch of length {length}, too short for its header"
    return DecodeError(reason, path="BatchLength", offset=position, rule="batch-length")


def _too_large(size: int, position: int) -> DecodeError:
    reason = f"a batch of {size} bytes, more than the {BATCH_BYTES_MAX} allowed"
    return DecodeError(reason, path="BatchLength", offset=position, rule="batch-length")


def wrong_crc(size: int, offset: int, position: int) -> DecodeError:
    """Return the fault of a batch whose CRC is wrong."""
    reason = f"the batch of {size} bytes at offset {offset} has a wrong CRC"
    return DecodeError(reason, path="CRC", offset=position, rule="crc")


def misplaced(offset: int, delta: int, epoch: int, tail: Tail, position: int) -> DecodeError | None:
    """Return the fault of a batch that does not follow ``tail``, None if it does.

    A leader writes offsets without a gap and epochs that never decrease, so anything else is
    damage. A compacted log has gaps, so that only an offset that is too low comes here.
    """
    # In the order of the fields in a batch, so that the text names the first one that is wrong.
    if offset != tail.next_offset >= 0 or offset < 0:
        reason = (
            f"a batch at offset {offset} stands where offset {max(tail.next_offset, 0)} must follow"
        )
        return DecodeError(reason, path="BaseOffset", offset=position, rule="base-offset")
    if delta < 0:
        reason = f"the batch at offset {offset} has the last offset delta {delta}"
        return DecodeError(
            reason, path="LastOffsetDelta", offset=position, rule="last-offset-delta"
        )
    if epoch < tail.epoch:
        reason = f"epoch {epoch} at offset {offset} follows epoch {tail.epoch}"
        return DecodeError(
            reason, path="PartitionLeaderEpoch", offset=position, rule="leader-epoch"
        )
    return None
