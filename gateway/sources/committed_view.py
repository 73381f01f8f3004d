"""Cuts a chain of log files at the high watermark, so that clients read committed records only.

It makes one small read where the high watermark lies inside a file.
"""

from __future__ import annotations

import bisect
from dataclasses import replace

from gateway.log.reading.log_view import LogView, SegmentSlice


def up_to_high_watermark(view: LogView, high_watermark: int) -> LogView:
    """Return ``view`` without the batches that end above ``high_watermark``; itself if there are
    none. Raises OSError.

    A batch is committed as a whole, so one that straddles the high watermark is left out. The chain
    is never cut below its start: a log starts at a snapshot, which is committed.
    """
    if high_watermark >= view.end_offset:
        return view
    slices: list[SegmentSlice] = []
    for piece in view.slices:
        if piece.end_offset > high_watermark:
            cut = _cut(piece, high_watermark)
            if cut:
                slices.append(cut)
            break
        slices.append(piece)
    end = slices[-1].end_offset if slices else view.start_offset
    epochs = tuple(entry for entry in view.epochs if entry[1] < end)
    return replace(
        view,
        slices=tuple(slices),
        end_offset=end,
        epochs=epochs,
        epoch=epochs[-1][0] if epochs else 0,
    )


def _cut(piece: SegmentSlice, offset: int) -> SegmentSlice | None:
    """Return the batches of ``piece`` that end at or before ``offset``; None if there are none."""
    index, wanted = piece.index, offset - piece.shift
    block = bisect.bisect_right(index.offsets, wanted, 0, piece.blocks) - 1
    if block < 0:
        return None
    position, end, largest = (
        index.positions[block],
        index.offsets[block],
        index.running_max[block - 1] if block else -1,
    )
    for start, size, _, next_offset, max_timestamp in index.walk(block, piece.end):
        if next_offset > wanted:
            break
        position, end, largest = start + size, next_offset, max(largest, max_timestamp)
    blocks = block + 1 if position > index.positions[block] else block
    if not blocks or end + piece.shift <= piece.start_offset:
        return None
    return replace(
        piece, end=position, end_offset=end + piece.shift, blocks=blocks, max_timestamp=largest
    )
