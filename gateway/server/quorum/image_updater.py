"""Keeps the image of the cluster up to date: decodes committed records in a thread, in steps, and
applies them on the event loop.

``gateway.sources.metadata_loader`` decodes and applies, as Kafka's ``MetadataLoader``; this module
runs it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.base.slices import SLICE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.server.logging.logs import Reports
    from gateway.sources.metadata_loader import MetadataLoader

#: Delay before the loader is tried again after a problem, s.
_PROBLEM_DELAY_S: Final = 1.0


class Committed(Protocol):
    """A log that is committed below ``committed``. It calls ``callback`` on the event loop whenever
    that offset moves.
    """

    @property
    def committed(self) -> int: ...
    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]: ...


async def update_image(loader: MetadataLoader, source: Committed, reports: Reports) -> None:
    """Apply committed records to the image, for ever."""
    moved = trio.Event()
    reported: object = None
    lacked: str | None = None

    def wake() -> None:
        moved.set()

    unsubscribe = source.on_advance(wake)
    try:
        while True:
            moved = trio.Event()
            try:
                more = await trio.to_thread.run_sync(loader.decode_step, source.committed)
                told = await _apply(loader, reports)
            except Exception as error:  # a bug; clients can still fetch the log
                reports.bug("image update failed", error)
                await trio.sleep(_PROBLEM_DELAY_S)
                continue
            if loader.lacks != lacked:
                lacked = loader.lacks
                if lacked is None:
                    reports.report("image whole")
                else:
                    reports.report("image not whole", error=lacked)
            if loader.problem != reported:
                reported = loader.problem
                if reported is not None:
                    reports.report("image behind", error=str(reported))
            if more:
                continue
            tries_again = loader.problem is not None or not told
            with trio.move_on_after(_PROBLEM_DELAY_S if tries_again else float("inf")):
                await moved.wait()
    finally:
        unsubscribe()


async def _apply(loader: MetadataLoader, reports: Reports) -> bool:
    """Apply one step, and tell the subscribers: each in a pass of its own if what came before took
    longer than a slice. False if one of them failed.
    """
    told, began = True, time.perf_counter()
    loader.apply_step()
    for notice in loader.take_notices():
        reports.report("record not applied", error=notice)
    for error in loader.publish():
        if error is not None:
            told = False
            reports.bug("image update failed", error)
        if time.perf_counter() - began > SLICE_S:
            await trio.lowlevel.checkpoint()
            began = time.perf_counter()
    return told
