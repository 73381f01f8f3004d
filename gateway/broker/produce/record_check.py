"""Looks at every record of a produced batch: sizes, offset deltas, timestamps, keys and headers.

A wrong record of one producer would otherwise fail every consumer of the partition. No record
becomes an object: a batch of 16 KiB may have a thousand. Source: ``DefaultRecord.readFrom`` and
``LogValidator.validateRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.produce.record_runs import RUN_MIN, find_run
from kwire.errors import DecodeError
from kwire.records.decode import RECORD_BYTES_MIN
from kwire.varint import read_unsigned_varint, read_unsigned_varlong

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.broker.produce.record_runs import Run

#: Records that are looked at in one step: about 1 ms.
_STEP: Final = 1000
#: The largest run that is looked at in one step: about 0.5 ms.
_RUN_MAX: Final = 8192
#: Records that are looked at one by one after a place without a run; twice as many the next time.
_ALONE_MIN: Final = 2 * RUN_MIN
_Data = bytes | bytearray


class RecordsSeen(NamedTuple):
    """The facts about all records of a batch. The deltas are those of timestamps, in ms, to the
    base timestamp of the batch; ``keyless`` is the number of the first record without a key, -1 if
    each has one.
    """

    earliest_delta: int
    latest_delta: int
    keyless: int


def check_records(data: _Data, count: int, start: int = 0) -> Slices[RecordsSeen]:
    """Check that ``count`` records fill ``data`` from ``start`` on, each with the offset delta of
    its place. Raises DecodeError with the number of the record as path.
    """
    size = len(data) - start
    if count * RECORD_BYTES_MIN > size:
        raise DecodeError(f"{count} records do not fit into {size} bytes", path="RecordsCount")
    seen, at, done, alone = RecordsSeen(1 << 63, -(1 << 63), -1), start, 0, _ALONE_MIN
    while done < count:
        # In one step: it takes less time than _STEP records one by one.
        run = find_run(data, at, range(done, min(count, done + _RUN_MAX)))
        if run is not None:
            seen = _with_run(seen, run, done)
            at, done, alone = run.end, done + run.records, _ALONE_MIN
        else:
            more = min(alone, count - done)
            at, seen = _check_some(data, at, range(done, done + more), seen)
            # Where there are no runs, looking for them costs next to nothing.
            done, alone = done + more, min(2 * alone, _STEP)
        if done < count:
            yield
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes left over behind {count} records")
    return seen


def _with_run(seen: RecordsSeen, run: Run, first: int) -> RecordsSeen:
    """Return the facts about the records so far, and about the run, which begins with ``first``."""
    return RecordsSeen(
        min(seen.earliest_delta, run.earliest_delta),
        max(seen.latest_delta, run.latest_delta),
        first if seen.keyless < 0 and not run.has_keys else seen.keyless,
    )


# One loop, in which the usual varints of one or two bytes need no function: calls for the lengths
# and deltas of two bytes would cost more than all else.
def _check_some(d: _Data, p: int, numbers: range, seen: RecordsSeen) -> tuple[int, RecordsSeen]:
    """Check the records of these numbers from position ``p`` on; return the position behind."""
    earliest, latest, keyless = seen
    size = len(d)
    try:
        for record in numbers:
            n = d[p]
            p += 1
            if n > 127:
                if (more := d[p]) < 128:
                    n += (more << 7) - 128
                    p += 1
                else:
                    n, p = read_unsigned_varint(d, p - 1)
            stop = p + (n >> 1)
            if n & 1 or stop > size:
                raise DecodeError("its length goes beyond the batch")
            n = d[p + 1]  # behind the attributes, of which no bit means anything yet
            p += 2
            if n > 127:
                n, p = read_unsigned_varlong(d, p - 1)
            n = n >> 1 ^ -(n & 1)
            earliest = n if n < earliest else earliest
            latest = n if n > latest else latest
            n = d[p]
            p += 1
            if n > 127:
                if (more := d[p]) < 128:
                    n += (more << 7) - 128
                    p += 1
                else:
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
                if (more := d[p]) < 128:
                    n += (more << 7) - 128
                    p += 1
                else:
                    n, p = read_unsigned_varint(d, p - 1)
            if not n & 1:
                p += n >> 1
            p = _check_headers(d, p, stop) if d[p] else p + 1
            if p != stop:
                raise DecodeError(f"it has {stop - p} bytes more than its fields")
    except IndexError:
        raise DecodeError("it ends beyond the batch", path=f"[{record}]") from None
    except DecodeError as error:
        raise DecodeError(error.reason, path=f"[{record}]") from None
    return p, RecordsSeen(earliest, latest, keyless)


def _check_headers(d: _Data, p: int, stop: int) -> int:
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
