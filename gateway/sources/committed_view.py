"""Cuts a chain of log files at the high watermark, so that clients read committed records only.

It makes one small read where the high watermark lies inside a file.
"""

from __future__ import annotations

import bisect
from dataclasses import replace

from gateway.log.chain import Chain, Part


def up_to_high_watermark(chain: Chain, high_watermark: int) -> Chain:
    """Return ``chain`` without the batches that end above ``high_watermark``; itself if there are
    none. Raises OSError.

    A batch is committed as a whole, so one that straddles the high watermark is left out. The chain
    is never cut below its start: a log starts at a snapshot, which is committed.
    """
    if high_watermark >= chain.end_offset:
        return chain
    parts: list[Part] = []
    for part in chain.parts:
        if part.end_offset > high_watermark:
            cut = _cut(part, high_watermark)
            if cut:
                parts.append(cut)
            break
        parts.append(part)
    end = parts[-1].end_offset if parts else chain.start_offset
    epochs = tuple(entry for entry in chain.epochs if entry[1] < end)
    return replace(
        chain,
        parts=tuple(parts),
        end_offset=end,
        epochs=epochs,
        epoch=epochs[-1][0] if epochs else 0,
    )


def _cut(part: Part, offset: int) -> Part | None:
    """Return the batches of ``part`` that end at or before ``offset``; None if there are none."""
    index, wanted = part.index, offset - part.shift
    block = bisect.bisect_right(index.offsets, wanted, 0, part.blocks) - 1
    if block < 0:
        return None
    position, end, largest = (
        index.positions[block],
        index.offsets[block],
        index.running_max[block - 1] if block else -1,
    )
    for start, size, _, next_offset, max_timestamp in index.walk(block, part.end):
        if next_offset > wanted:
            break
        position, end, largest = start + size, next_offset, max(largest, max_timestamp)
    blocks = block + 1 if position > index.positions[block] else block
    if not blocks or end + part.shift <= part.start_offset:
        return None
    return replace(
        part, end=position, end_offset=end + part.shift, blocks=blocks, max_timestamp=largest
    )
