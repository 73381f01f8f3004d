"""Cuts a chain of log files at the high watermark, so that clients read committed records only.

It makes one small read where the high watermark lies inside a file.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.log.reading.log_view import LogView
from gateway.log.segments.segment_slice import SegmentSlice


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
            cut = piece.up_to(high_watermark)
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
