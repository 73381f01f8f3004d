"""Keeps the image of an observed cluster: what is committed is decoded in a thread, piece by piece,
and applied on the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.server.logs import Reports
    from gateway.sources.metadata_loader import MetadataLoader

#: While something keeps the image from going on, it is tried again after so long, s.
_PROBLEM_DELAY_S: Final = 1.0


class Committed(Protocol):
    """A log of which everything below ``committed`` is, told on the loop whenever that moves."""

    @property
    def committed(self) -> int: ...
    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]: ...


async def keep_image(
    keeper: MetadataLoader,
    source: Committed,
    reports: Reports,
    folded: Callable[[], None] = lambda: None,
) -> None:
    """Fold what is committed, for ever. ``folded`` is called on the loop whenever there is more in
    the image.
    """
    moved = trio.Event()
    told: object = None

    def wake() -> None:
        moved.set()

    unsubscribe = source.on_advance(wake)
    try:
        while True:
            moved = trio.Event()
            try:
                more = await _fold(keeper, source.committed, reports)
                folded()
            except Exception as error:  # a bug of ours: the log is served all the same
                reports.bug("image update failed", error)
                await trio.sleep(_PROBLEM_DELAY_S)
                continue
            if keeper.problem != told:
                told = keeper.problem
                if told is not None:
                    reports.report("image behind", error=str(told))
            if more:
                continue
            with trio.move_on_after(_PROBLEM_DELAY_S if keeper.problem else float("inf")):
                await moved.wait()
    finally:
        unsubscribe()


async def _fold(keeper: MetadataLoader, committed: int, reports: Reports) -> bool:
    """One step; true if there is more to do at once."""
    more = await trio.to_thread.run_sync(keeper.decode_step, committed)
    keeper.apply_step()
    for notice in keeper.take_notices():
        reports.report("record not applied", error=notice)
    return more
