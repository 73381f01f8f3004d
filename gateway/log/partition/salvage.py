"""Repairs a damaged segment of a log that no other node has, as bytes.

Readable batches stay, and empty batches replace the offsets that are lost. A consumer sees a gap
there, as it does behind Kafka's log cleaner, which leaves batches without records too
(``LogCleaner``). No offset is given to another record, and the batches behind the damage are
served. It reads and writes no file: ``gateway.log.partition.salvage_recovery`` does.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.log.segments.batch_check import Tail, check_batches
from kwire.records import encode_batch
from kwire.records.header import BATCH_OVERHEAD

#: The node is the only replica of such a log, so the leader epoch never changes.
EPOCH: Final = 0
#: The offset delta of a batch is an int32.
_DELTA_MAX: Final = (1 << 31) - 1
_START: Final = struct.Struct(">qiib")  # base offset, length, partition leader epoch, magic
_OFFSET: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">qii")  # the part of it that comes before the magic
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"


class Salvaged(NamedTuple):
    """The repaired bytes of a segment, its end offset, and one phrase for each repair."""

    data: bytes
    end_offset: int
    repairs: list[str]


def gap(start: int, end: int) -> bytes:
    """Encode empty batches for the offsets from ``start`` to ``end`` (exclusive)."""
    parts = []
    while start < end:
        # A log may have lost more offsets than one batch can span.
        last = min(end - 1, start + _DELTA_MAX)
        parts.append(
            encode_batch(
                (),
                base_offset=start,
                last_offset=last,
                base_timestamp=-1,
                max_timestamp=-1,
                partition_leader_epoch=EPOCH,
            )
        )
        start = last + 1
    return b"".join(parts)


def salvage(data: bytes, base_offset: int, end_offset: int | None) -> Salvaged:
    """Return the readable batches of a segment that begins at ``base_offset``.

    ``end_offset``: where the segment must end, because the next one begins there; None for the last
    segment, whose unreadable end is dropped.
    """
    parts: list[bytes] = []
    repairs: list[str] = []
    expected, position = base_offset, 0
    limit = _DELTA_MAX + base_offset if end_offset is None else end_offset
    for run in _runs(data, base_offset, limit):
        # Bytes without offsets are lost too: they may have been a batch whose offsets another one
        # has.
        if run.start > position or run.base > expected:
            repairs.append(
                f"lost bytes {position} to {run.start}, with offsets {expected} to "
                f"{run.base - 1}: {run.reason}"
            )
            parts.append(gap(expected, run.base))
        elif run.mended:
            repairs.append(f"mended the head of the batch at byte {run.start}: {run.reason}")
        parts.append(run.mended or data[run.start : run.end])
        expected, position = run.next_offset, run.end
    # Up to the next segment: readers take a gap between two segments for damage.
    if end_offset is not None and expected < end_offset:
        repairs.append(f"lost offsets {expected} to {end_offset - 1}, from byte {position} on")
        parts.append(gap(expected, end_offset))
        expected = end_offset
    return Salvaged(b"".join(parts), expected, repairs)


class _Run(NamedTuple):
    """Good batches in a row: positions of the first and behind the last, first and next offset, the
    fault before them; ``mended``: what replaces them.
    """

    start: int
    end: int
    base: int
    next_offset: int
    reason: str
    mended: bytes = b""


def _runs(data: bytes, base_offset: int, limit: int) -> Iterator[_Run]:
    """Yield every run of good batches, in order."""
    view = memoryview(data)
    expected, position, reason = base_offset, 0, "no batch"
    while position < len(data):
        run, fault = _run_at(view, position, expected, reason)
        # A run that goes beyond the limit claims offsets of the next segment: it is not a part of
        # this log.
        fits = run is None or run.next_offset <= limit
        if run is not None and fits:
            yield run
            expected, position = run.next_offset, run.end
        reason = fault
        mended = _mended(view, position, expected, reason) if fits else None
        if mended is not None and mended.next_offset <= limit:
            yield mended
            expected, position = mended.next_offset, mended.end
            continue
        # From the next byte on, because nothing in a damaged batch can be trusted.
        found = next_batch(data, position + 1, expected, limit)
        if found is None:
            return
        position, expected = found


def _run_at(view: memoryview, position: int, expected: int, reason: str) -> tuple[_Run | None, str]:
    """Return the good batches from ``position`` on, None without one, and the fault behind them."""
    checked = check_batches(view[position:], Tail(expected, EPOCH), position)
    fault = checked.fault.reason if checked.fault else "a batch that is cut off"
    batches = list(itertools.takewhile(lambda one: one.epoch == EPOCH, checked.batches))
    if len(batches) < len(checked.batches):
        fault = f"epoch {checked.batches[len(batches)].epoch} in a log of epoch {EPOCH}"
    if not batches:
        return None, fault
    first, last = batches[0], batches[-1]
    run = _Run(position, last.position + last.size, first.base_offset, last.last_offset + 1, reason)
    return run, fault


def _mended(view: memoryview, position: int, expected: int, reason: str) -> _Run | None:
    """Return the batch at ``position`` with the base offset and epoch that it must have there; None
    if it is damaged elsewhere, or may belong elsewhere. The CRC does not cover these two.
    """
    if len(view) - position < BATCH_OVERHEAD:
        return None
    offset, length, *_ = _START.unpack_from(view, position)
    if not BATCH_OVERHEAD <= length + 12 <= len(view) - position:
        return None
    head = _HEAD.pack(expected, length, EPOCH)
    data = head + view[position + len(head) : position + length + 12]
    batches = check_batches(data, Tail(expected, EPOCH)).batches
    if not batches:
        return None
    end, next_offset = position + len(data), batches[0].last_offset + 1
    # Another offset is only damage if the next batch stands where this one would end: a batch
    # before it may be missing instead.
    if offset != expected and view[end : end + _OFFSET.size] != _OFFSET.pack(next_offset):
        return None
    return _Run(position, end, expected, next_offset, reason, data)


def next_batch(data: bytes, start: int, lowest: int, limit: int) -> tuple[int, int] | None:
    """Find the next whole batch from ``start`` on with an offset from ``lowest`` to ``limit``:
    (position, base offset).
    """
    # The length of a damaged batch cannot be trusted, so the search looks for the magic byte. The
    # CRC then decides: four bytes that happen to fit are no batch.
    at = data.find(_MAGIC, start + _MAGIC_AT)
    while at >= 0:
        position = at - _MAGIC_AT
        offset, length, epoch, _ = _START.unpack_from(data, position)
        fits = BATCH_OVERHEAD <= length + 12 <= len(data) - position
        if fits and epoch == EPOCH and lowest <= offset < limit:
            piece = memoryview(data)[position : position + length + 12]
            # With its CRC, by the rules of the log itself.
            if check_batches(piece, Tail(offset, EPOCH)).batches:
                return position, offset
        at = data.find(_MAGIC, at + 1)
    return None
