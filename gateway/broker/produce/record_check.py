"""Looks at every record of a produced batch: sizes, offset deltas, timestamps, keys and headers.

A wrong record of one producer would otherwise fail every consumer of the partition. No record
becomes an object: a batch of 16 KiB may have a thousand. Source: ``DefaultRecord.readFrom`` and
``LogValidator.validateRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.errors import DecodeError
from kwire.records.decode import RECORD_BYTES_MIN
from kwire.varint import read_unsigned_varint, read_unsigned_varlong

if TYPE_CHECKING:
    from gateway.base.slices import Slices

#: Records that are looked at in one step: about 1 ms.
_STEP: Final = 1000


class RecordsSeen(NamedTuple):
    """The facts about all records of a batch. The deltas are those of timestamps, in ms, to the
    base timestamp of the batch; ``keyless`` is the number of the first record without a key, -1 if
    each has one.
    """

    earliest_delta: int
    latest_delta: int
    keyless: int


def check_records(data: bytes, count: int) -> Slices[RecordsSeen]:
    """Check that ``count`` records fill ``data``, each with the offset delta of its place. Raises
    DecodeError with the number of the record as path.
    """
    if count * RECORD_BYTES_MIN > len(data):
        raise DecodeError(f"{count} records do not fit into {len(data)} bytes", path="RecordsCount")
    seen, at, done = RecordsSeen(1 << 63, -(1 << 63), -1), 0, 0
    while done < count:
        more = min(_STEP, count - done)
        at, seen = _check_some(data, at, done, more, seen)
        done += more
        yield
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes left over behind {count} records")
    return seen


# One loop without a function for a varint: it costs 0.4 us a record, and calls would double that.
def _check_some(
    d: bytes, p: int, number: int, count: int, seen: RecordsSeen
) -> tuple[int, RecordsSeen]:
    """Check ``count`` records from position ``p`` on; return the position behind them."""
    earliest, latest, keyless = seen
    size = len(d)
    try:
        for record in range(number, number + count):
            n = d[p]
            p += 1
            if n > 127:
                n, p = read_unsigned_varint(d, p - 1)
            stop = p + (n >> 1)
            if n & 1 or stop > size:
                raise DecodeError("its length goes beyond the batch")
            n = d[p + 1]  # behind the attributes, of which no bit means anything yet
            p += 2
            if n > 127:
                n, p = read_unsigned_varlong(d, p - 1)
            n = n >> 1 ^ -(n & 1)
            if n < earliest:
                earliest = n
            if n > latest:
                latest = n
            n = d[p]
            p += 1
            if n > 127:
                n, p = read_unsigned_varint(d, p - 1)
            if n != record << 1:
                raise DecodeError(f"its offset delta is {n >> 1 ^ -(n & 1)}")
            n = d[p]
            p += 1
            if n > 127:
                n, p = read_unsigned_varint(d, p - 1)
            if not n & 1:
                p += n >> 1
            elif keyless < 0:
                keyless = record
            n = d[p]
            p += 1
            if n > 127:
                n, p = read_unsigned_varint(d, p - 1)
            if not n & 1:
                p += n >> 1
            if d[p]:
                p = _check_headers(d, p, stop)
            else:
                p += 1
            if p != stop:
                raise DecodeError(f"it has {stop - p} bytes more than its fields")
    except IndexError:
        raise DecodeError("it ends beyond the batch", path=f"[{record}]") from None
    except DecodeError as error:
        raise DecodeError(error.reason, path=f"[{record}]") from None
    return p, RecordsSeen(earliest, latest, keyless)


def _check_headers(d: bytes, p: int, stop: int) -> int:
    """Check the headers at ``p``; return the position behind them. Raises IndexError too."""
    n, p = read_unsigned_varint(d, p)
    # Each takes two bytes: a number beyond that is refused before it is counted down.
    if n & 1 or n > stop - p:
        raise DecodeError("its number of headers does not fit into it")
    for _ in range(n >> 1):
        n, p = read_unsigned_varint(d, p)
        if n & 1:
            raise DecodeError("the key of a header is null")
        p += n >> 1
        n, p = read_unsigned_varint(d, p)
        if not n & 1:
            p += n >> 1
        if p > stop:
            raise DecodeError("its headers go beyond it")
    return p
