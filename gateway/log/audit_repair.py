"""Repairs a damaged segment of the audit log, as bytes.

Readable batches stay, and empty batches replace the offsets that are lost. A consumer sees a gap
there, as it does behind Kafka's log cleaner, which leaves batches without records too
(``LogCleaner``). No offset is given to another record, and the batches behind the damage are
served. It reads and writes no file: ``gateway.log.audit_log`` does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.log.batch_check import Tail, check_batches
from kwire.records import encode_batch
from kwire.records.header import BATCH_OVERHEAD

#: Each node is the only replica of its audit partition, so the leader epoch never changes.
EPOCH: Final = 0
#: The offset delta of a batch is an int32.
_DELTA_MAX: Final = (1 << 31) - 1
_START: Final = struct.Struct(">qiib")  # base offset, length, partition leader epoch, magic
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"


class Salvaged(NamedTuple):
    """The repaired bytes of a segment, its end offset, and one phrase for each loss."""

    data: bytes
    end_offset: int
    losses: list[str]


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
    losses: list[str] = []
    expected, position = base_offset, 0
    limit = _DELTA_MAX + base_offset if end_offset is None else end_offset
    for start, batches, next_offset, reason in _runs(data, base_offset, limit):
        # Bytes without offsets are lost too: they may have been a batch whose offsets another one
        # has.
        if start > position or batches.base > expected:
            losses.append(
                f"bytes {position} to {start}, with offsets {expected} to {batches.base - 1}: "
                f"{reason}"
            )
            parts.append(gap(expected, batches.base))
        parts.append(data[start : batches.end])
        expected, position = next_offset, batches.end
    # Up to the next segment: readers take a gap between two segments for damage.
    if end_offset is not None and expected < end_offset:
        losses.append(f"offsets {expected} to {end_offset - 1}, from byte {position} on")
        parts.append(gap(expected, end_offset))
        expected = end_offset
    return Salvaged(b"".join(parts), expected, losses)


class _Run(NamedTuple):
    """Good batches in a row: the first offset, and the position behind the last."""

    base: int
    end: int


def _runs(data: bytes, base_offset: int, limit: int) -> Iterator[tuple[int, _Run, int, str]]:
    """Yield (position, run, next offset, fault before it) for every run of good batches, in
    order.
    """
    view = memoryview(data)
    expected, position, reason = base_offset, 0, "no batch"
    while position < len(data):
        checked = check_batches(view[position:], Tail(expected, EPOCH), position)
        # A run that goes beyond the limit claims offsets of the next segment: it is not a part of
        # this log.
        if checked.batches and checked.tail.next_offset <= limit:
            first, end = checked.batches[0], checked.end
            yield position, _Run(first.base_offset, end), checked.tail.next_offset, reason
            expected, position = checked.tail.next_offset, end
        reason = checked.fault.reason if checked.fault else "a batch that is cut off"
        # From the next byte on, because nothing in a damaged batch can be trusted.
        found = _next_batch(data, position + 1, expected, limit)
        if found is None:
            return
        position, expected = found


def _next_batch(data: bytes, start: int, lowest: int, limit: int) -> tuple[int, int] | None:
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
