"""Reads the 61 bytes before the records of a batch of format 2, and finds batches in a buffer. It
reads no records.

The gateway serves and indexes batches through this alone: nothing is copied, nothing decompressed.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, cast

import crc32c

from kwire.errors import DecodeError
from kwire.records.record import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Compression,
    TimestampType,
)

#: Types that batches are read from.
Buffer = bytes | bytearray | memoryview | mmap.mmap

#: Size in bytes of a batch header of format 2, the records not counted (``RECORD_BATCH_OVERHEAD``).
BATCH_OVERHEAD: Final = 61
#: Size in bytes of base offset and length, which the length does not count (``LOG_OVERHEAD``).
LOG_OVERHEAD: Final = 12
#: Where the bytes begin that the CRC covers: at the attributes. Base offset and leader epoch lie
#: outside it.
CRC_START: Final = 21
#: The smallest length field of any format (``LegacyRecord.RECORD_OVERHEAD_V0``).
_LENGTH_MIN: Final = 14
_MAGIC_AT: Final = 16
_INT32_MAX: Final = (1 << 31) - 1
_FIELDS: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">8xi")


class BatchHeader(NamedTuple):
    """Every field of a batch header as it is in the bytes, and its position
    (``DefaultRecordBatch``).

    Offsets, epochs, timestamps (ms) and sequences are Kafka's; -1 where a batch has none. Batches
    of formats 0 and 1 are shown through the same fields, with -1 for what they lack.
    """

    base_offset: int
    length: int  #: bytes after this field
    partition_leader_epoch: int
    magic: int
    crc: int  #: CRC-32C of everything from the attributes on (formats 0 and 1: CRC-32)
    attributes: int
    last_offset_delta: int
    base_timestamp: int  #: the delete horizon instead when ``delete_horizon_ms`` is not None
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int  #: records declared, not counted
    position: int  #: of the batch in the buffer it was read from

    def placed(self, base_offset: int, leader_epoch: int) -> BatchHeader:
        """Return the header as it is once a leader of ``leader_epoch`` has given the batch its
        offsets, which begin with ``base_offset``.
        """
        return tuple.__new__(BatchHeader, (base_offset, self[1], leader_epoch, *self[3:]))

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.length

    @property
    def end(self) -> int:
        """Position after the batch in its buffer."""
        return self.position + LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """The last offset the batch stands for; compaction may have removed its record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """One past the last offset."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Raises DecodeError (rule ``compression-type``) for a number that no type has."""
        return Compression.of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME; NO_TIMESTAMP in format 0."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP
        return (
            TimestampType.LOG_APPEND_TIME
            if self.attributes & TIMESTAMP_TYPE_BIT
            else TimestampType.CREATE_TIME
        )

    @property
    def is_transactional(self) -> bool:
        """True for a part of a producer's transaction (KIP-98)."""
        return self.magic > 1 and self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """True for control records, which consumers do not return (KIP-98, KIP-595)."""
        return self.magic > 1 and self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which tombstones and markers of the batch may be deleted (KIP-534), or
        None.
        """
        return (
            self.base_timestamp if self.magic > 1 and self.attributes & DELETE_HORIZON_BIT else None
        )

    @property
    def last_sequence(self) -> int:
        """Producer sequence of the last offset, -1 if there is none; wraps after 2^31 - 1."""
        return (
            -1
            if self.base_sequence == -1
            else _increment_sequence(self.base_sequence, self.last_offset_delta)
        )

    def sequence_of(self, offset: int) -> int:
        """Producer sequence of the record at ``offset``, -1 if the batch has none."""
        return (
            -1
            if self.base_sequence < 0
            else _increment_sequence(self.base_sequence, offset - self.base_offset)
        )


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch of format 2 at ``position``. The records need not be there.

    Raises DecodeError: rule ``truncated`` (fewer than 61 bytes), ``batch-length`` or
    ``batch-magic``.
    """
    left = len(data) - position
    if left < BATCH_OVERHEAD:
        raise DecodeError(
            f"a batch header takes 61 bytes, {max(0, left)} are left",
            offset=position,
            rule="truncated",
        )
    header = tuple.__new__(BatchHeader, (*_FIELDS.unpack_from(data, position), position))
    if header.magic != 2:
        raise _bad_magic(header.magic, position)
    if header.length < BATCH_OVERHEAD - LOG_OVERHEAD:
        raise _bad_length(header.length, position)
    return header


def iter_batches(
    data: Buffer, start: int = 0, end: int | None = None, *, check_crc: bool = False
) -> Iterator[BatchHeader]:
    """The headers of the whole batches of format 2 in ``data[start:end]``, in order; it does not
    read records.

    An incomplete batch ends the iteration without an error, as in Kafka; it begins at the ``end``
    of the last header. ``check_crc`` checks each batch before it is returned. Raises DecodeError
    with the position: rule ``batch-length``, ``batch-magic`` (also for formats 0 and 1, which
    ``decode_batches`` reads) or ``crc``.
    """
    limit = len(data) if end is None else min(end, len(data))
    unpack, new, position = _FIELDS.unpack_from, tuple.__new__, start
    while size := batch_size(data, position, limit):
        if data[position + _MAGIC_AT] != 2:
            raise _bad_magic(data[position + _MAGIC_AT], position)
        if size < BATCH_OVERHEAD:
            raise _bad_length(size - LOG_OVERHEAD, position)
        header = new(BatchHeader, (*unpack(data, position), position))
        if check_crc:
            verify_crc(data, header)
        yield header
        position += size


def verify_crc(data: Buffer, header: BatchHeader) -> None:
    """Check the CRC-32C of the batch of format 2 that ``header`` was read from. Raises DecodeError
    (rule ``crc``).
    """
    with memoryview(data) as view:
        computed = crc32c.crc32c(view[header.position + CRC_START : header.end])
    if computed != header.crc:
        raise corrupt(header.crc, computed, header.position)


def batch_size(data: Buffer, position: int, end: int) -> int:
    """Size in bytes of the batch of any format at ``position``, 0 if it is not whole before
    ``end``.

    The checks and their order are those of ``ByteBufferLogInputStream``. Raises DecodeError: rule
    ``batch-length`` or ``batch-magic``.
    """
    left = end - position
    if left < LOG_OVERHEAD:
        return 0
    length = cast(int, _LENGTH.unpack_from(data, position)[0])
    if length < _LENGTH_MIN:
        raise _bad_length(length, position)
    if left <= _MAGIC_AT:
        return 0
    if data[position + _MAGIC_AT] > 2:
        raise _bad_magic(data[position + _MAGIC_AT], position)
    return LOG_OVERHEAD + length if length <= left - LOG_OVERHEAD else 0


def corrupt(stored: int, computed: int, position: int) -> DecodeError:
    """The error for a batch or message whose checksum is wrong."""
    return DecodeError(
        f"batch is corrupt: its CRC is {stored:08x}, its bytes give {computed:08x}",
        path="CRC",
        offset=position,
        rule="crc",
    )


def _increment_sequence(sequence: int, increment: int) -> int:
    """``DefaultRecordBatch.incrementSequence``, the wrapping around of its 32-bit arithmetic
    included.
    """
    if sequence > _int32(_INT32_MAX - increment):
        return _int32(increment - (_INT32_MAX - sequence) - 1)
    return _int32(sequence + increment)


def _int32(value: int) -> int:
    return (value + (1 << 31) & 0xFFFFFFFF) - (1 << 31)


def _bad_length(length: int, position: int) -> DecodeError:
    return DecodeError(
        f"a batch of length {length}, too short for its header",
        path="BatchLength",
        offset=position,
        rule="batch-length",
    )


def _bad_magic(magic: int, position: int) -> DecodeError:
    known = " here: only format 2 is read by this call" if magic in (0, 1) else ""
    return DecodeError(
        f"unknown batch format (magic) {magic}{known}",
        path="Magic",
        offset=position,
        rule="batch-magic",
    )
