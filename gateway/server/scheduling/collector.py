"""Turns the garbage collector on in a process that serves, with the event loop as its place.

``gateway.sources.gc_tuning`` decides what is collected, and when.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable

import trio

from gateway.sources.gc_tuning import freeze_survivors, hand_over_quickly


def settle_collector() -> None:
    """Call once when the process is ready: what lives then stays alive to its end."""
    token = trio.lowlevel.current_trio_token()

    def soon(work: Callable[[], None]) -> None:
        # A collection after the loop has ended needs no other one: the process ends.
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(work)

    gc.freeze()
    freeze_survivors(soon)
    hand_over_quickly()
    gc.enable()
