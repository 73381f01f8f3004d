"""Keeps the image of an observed cluster, and the local copy of its log: folding, snapshots, cleaning. One task for each.

What is committed is decoded in a thread, a piece at a time, and applied on the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from gateway.server.logs import Reports
    from gateway.sources.image_keeper import ImageKeeper
    from gateway.sources.observed_log import ObservedLog

#: While something keeps the image from going on, it is tried again after so long, s.
_PROBLEM_DELAY_S: Final = 1.0


async def keep_image(keeper: ImageKeeper, source: ObservedLog, reports: Reports) -> None:
    """Fold what is committed, for ever."""
    moved = trio.Event()

    def wake() -> None:
        moved.set()

    unsubscribe = source.on_advance(wake)
    try:
        while True:
            moved = trio.Event()
            more = await trio.to_thread.run_sync(keeper.decode_step, source.committed)
            keeper.apply_step()
            for notice in keeper.take_notices():
                reports.report("record not folded", "warning", error=notice)
            if more:
                continue
            with trio.move_on_after(_PROBLEM_DELAY_S if keeper.problem else float("inf")):
                await moved.wait()
    finally:
        unsubscribe()
