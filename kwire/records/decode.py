"""Reads the records section of a batch of format 2 in one hand-tuned loop. It knows no headers,
checksums or compression.

A record is a few varints around two byte strings, so the loop inlines the varints of one and two
bytes and calls a function for longer ones; one comparison of positions at the end of each record
makes most checks. No memory is allocated for a declared length: a slice ends where the bytes end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from kwire.errors import DecodeError
from kwire.records.record import INT64, Header, Record
from kwire.varint import read_unsigned_varint, read_unsigned_varlong, read_varint

_Append = Callable[[Record], None]
#: The smallest record: length, attributes, two deltas, two lengths and the number of headers.
RECORD_BYTES_MIN: Final = 7
#: A base this far inside int64 cannot leave it by a delta of two bytes, or of an int32.
SAFE_BASE: Final = range(-(1 << 62), 1 << 62)


def read_records(
    d: bytes, count: int, base_offset: int, base_timestamp: int, budget: int
) -> list[Record]:
    """The ``count`` records that fill ``d``, each with its own timestamp (ms). ``budget`` bounds
    records and headers in all.

    Raises DecodeError with the record's number as path and the byte in ``d`` as offset
    (``DefaultRecord.readFrom``).
    """
    _check_count(d, count, budget)
    records: list[Record] = []
    try:
        end = read_some(d, count, base_offset, base_timestamp, budget - count, records.append)
        if end > len(d):
            raise IndexError
    except IndexError:
        raise _at(len(records), _ends_early(d)) from None
    except DecodeError as error:
        raise _at(len(records), error) from None
    if end < len(d):
        raise _left_over(d, end, count)
    if base_timestamp not in SAFE_BASE or base_offset not in SAFE_BASE:
        _check_longs(records)
    return records


def read_slices(
    d: bytes, count: int, base_offset: int, base_timestamp: int, budget: int, size: int
) -> Iterator[list[Record]]:
    """As :func:`read_records`, in lists of ``size``, the last of which may be shorter. An error is
    raised after the records of the lists before it.
    """
    _check_count(d, count, budget)
    done = end = 0
    left = budget - count
    while done < count:
        records: list[Record] = []
        try:
            end = read_some(
                d, min(size, count - done), base_offset, base_timestamp, left, records.append, end
            )
            if end > len(d):
                raise IndexError
        except IndexError:
            raise _at(done + len(records), _ends_early(d)) from None
        except DecodeError as error:
            raise _at(done + len(records), error) from None
        if base_timestamp not in SAFE_BASE or base_offset not in SAFE_BASE:
            _check_longs(records)
        left -= sum(len(record.headers) for record in records)
        done += len(records)
        yield records
    if end < len(d):
        raise _left_over(d, end, count)


def _check_count(d: bytes, count: int, budget: int) -> None:
    if count > budget:
        raise DecodeError(
            f"{count} records, more than the {budget} allowed",
            path="RecordsCount",
            rule="element-budget",
        )
    if count * RECORD_BYTES_MIN > len(d):
        raise DecodeError(
            f"{count} records do not fit into {len(d)} bytes", path="RecordsCount", rule="truncated"
        )


def _ends_early(d: bytes) -> DecodeError:
    return DecodeError("the bytes end inside a record", offset=len(d), rule="truncated")


def _left_over(d: bytes, end: int, count: int) -> DecodeError:
    left = len(d) - end
    return DecodeError(
        f"{left} bytes left over behind {count} records", offset=end, rule="trailing-bytes"
    )


# One loop without a function for a varint: a call for each makes the decoding of a Fetch slower.
def read_some(
    d: bytes, count: int, base: int, base_time: int, budget: int, append: _Append, p: int = 0
) -> int:
    """Append the ``count`` records at position ``p``, and return the position after them, which is
    beyond the end, or IndexError is raised, if the bytes end early. Raises DecodeError too.
    """
    new = object.__new__
    for _ in range(count):
        n = d[p]
        p += 1
        if n > 127:
            n += (d[p] << 7) - 128
            p += 1
            if n > 16383:
                n, p = read_unsigned_varint(d, p - 2)
        stop = p + p + n  # twice the end: an odd n is a negative length, which no position equals
        record = new(Record)
        n = d[p + 1]  # behind the attributes, of which no bit means anything yet
        p += 2
        if n > 127:
            n += (d[p] << 7) - 128
            p += 1
            if n > 16383:
                n, p = _read_wide_delta(d, p - 2, base_time)
        record.timestamp = (
            base_time if n == 0 else base_time - (n + 1 >> 1) if n & 1 else base_time + (n >> 1)
        )
        n = d[p]
        p += 1
        if n > 127:
            n += (d[p] << 7) - 128
            p += 1
            if n > 16383:
                n, p = read_unsigned_varint(d, p - 2)
        record.offset = base - (n + 1 >> 1) if n & 1 else base + (n >> 1)
        n = d[p]
        p += 1
        if n > 127:
            n += (d[p] << 7) - 128
            p += 1
            if n > 16383:
                n, p = read_unsigned_varint(d, p - 2)
        record.key = None if n & 1 else d[p : (p := p + (n >> 1))]
        n = d[p]
        p += 1
        if n > 127:
            n += (d[p] << 7) - 128
            p += 1
            if n > 16383:
                n, p = read_unsigned_varint(d, p - 2)
        record.value = None if n & 1 else d[p : (p := p + (n >> 1))]
        if d[p]:
            record.headers, p = _read_headers(d, p, budget)
            budget -= len(record.headers)
        else:
            record.headers, p = (), p + 1
        if p + p != stop:
            _bad_length(p)
        append(record)
    return p


def _bad_length(p: int) -> NoReturn:
    raise DecodeError(
        "a record's fields do not end where its length says", offset=p, rule="record-length"
    )


def _read_wide_delta(d: bytes, p: int, base: int) -> tuple[int, int]:
    """A timestamp delta of more than two bytes, still zigzag: (delta, position after it)."""
    n, end = read_unsigned_varlong(d, p)
    if base + (n >> 1 ^ -(n & 1)) not in INT64:
        raise DecodeError(
            "timestamp beyond 64 bits", path=".TimestampDelta", offset=p, rule="int64-overflow"
        )
    return n, end


def _read_headers(d: bytes, p: int, budget: int) -> tuple[tuple[Header, ...], int]:
    """The headers of a record, their number first: (headers, position after them)."""
    start = p
    count, p = read_varint(d, p)
    if count < 0 or count > len(d) - p:
        raise DecodeError(
            f"{count} headers in {len(d) - p} bytes",
            path=".Headers",
            offset=start,
            rule="header-count",
        )
    if count > budget:
        raise DecodeError(
            f"{count} headers, more than the {budget} still allowed",
            path=".Headers",
            offset=start,
            rule="element-budget",
        )
    headers: list[Header] = []
    for i in range(count):
        start = p
        size, p = read_varint(d, p)
        end = p + size
        if size < 0 or end > len(d):
            _bad_header(i, f"key of {size} bytes", start, size)
        try:
            key = d[p:end].decode()
        except UnicodeDecodeError as error:
            raise DecodeError(
                f"key is not UTF-8: {error.reason}",
                path=f".Headers[{i}]",
                offset=p,
                rule="bad-utf8",
            ) from None
        size, p = read_varint(d, end)
        if size < 0:
            headers.append((key, None))
            continue
        if p + size > len(d):
            _bad_header(i, f"value of {size} bytes", end, size)
        headers.append((key, d[p : p + size]))
        p += size
    return tuple(headers), p


def _bad_header(i: int, what: str, offset: int, size: int) -> NoReturn:
    rule = "null" if size < 0 else "truncated"
    raise DecodeError(f"{what} in a record header", path=f".Headers[{i}]", offset=offset, rule=rule)


def _check_longs(records: list[Record]) -> None:
    """Raise DecodeError for an offset or timestamp beyond int64; Kafka lets it wrap around."""
    for i, record in enumerate(records):
        if record.timestamp not in INT64 or record.offset not in INT64:
            raise DecodeError(
                "offset or timestamp beyond 64 bits", path=f"records[{i}]", rule="int64-overflow"
            )


def _at(number: int, error: DecodeError) -> DecodeError:
    return DecodeError(
        error.reason,
        path=f"records[{number}]{error.path}",
        offset=error.offset,
        rule=error.rule,
    )
