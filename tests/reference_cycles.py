"""Tells whether an object is released with its last reference, without a pass of the collector.

The server freezes what survives a full pass of the collector (``gc.freeze``), so an object in a
reference cycle that lives that long is only released when memory has grown by a quarter.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_reference_cycles(*types: type) -> Iterator[None]:
    """Fail if the block leaves objects of ``types`` that only the collector can release."""
    gc.collect()
    was_enabled, flags = gc.isenabled(), gc.get_debug()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)  # unreachable objects go to gc.garbage
        gc.collect()
        left = sorted({type(one).__name__ for one in gc.garbage if isinstance(one, types)})
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        if was_enabled:
            gc.enable()
    assert not left, f"in a reference cycle: {left}"
