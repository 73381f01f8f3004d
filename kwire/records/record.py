"""Defines a record and the enums of a batch's attribute bits. It does not read or write bytes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from kwire.errors import DecodeError

#: Range of offsets and timestamps.
INT64: Final = range(-(1 << 63), 1 << 63)
#: A record header: its key, and its value or None (``RecordHeader``).
Header = tuple[str, bytes | None]


class Compression(enum.IntEnum):
    """Kafka's compression types by the number that the attributes carry (``CompressionType``)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, attributes: int) -> Compression:
        """The type in ``attributes``. Raises DecodeError (rule ``compression-type``) for 5 to 7,
        which no type has.
        """
        number = attributes & 0x07
        if number > 4:
            raise DecodeError(
                f"unknown compression type {number}", path="Attributes", rule="compression-type"
            )
        return _COMPRESSIONS[number]


_COMPRESSIONS: Final = tuple(Compression)


class TimestampType(enum.IntEnum):
    """The side that set the timestamps of a batch (``TimestampType``); message format 0 has
    none.
    """

    NO_TIMESTAMP = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record:
    """A record: absolute ``offset``, ``timestamp`` in ms since the epoch (-1: none), ``key`` and
    ``value`` or None, ``headers``.

    ``headers`` is a sequence of ``(key, value)``; what the decoder makes is a tuple. Plain
    attributes, no checks: writers check.
    """

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    def __init__(
        self,
        *,
        offset: int = 0,
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[Header] = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and tuple(self.headers) == tuple(other.headers)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        headers = f", headers={list(self.headers)!r}" if self.headers else ""
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r},"
            f" value={self.value!r}{headers})"
        )


#: Bits of a batch's attributes beside the three of the compression (``DefaultRecordBatch``).
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
