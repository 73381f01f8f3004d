"""Tells the C library which freed blocks of memory to keep for the next ones (``mallopt(3)``).

A block that goes back to the system comes again as pages of zeros, one fault for each 4 KiB, which
takes longer than to copy them. glibc alone knows these parameters; elsewhere nothing happens.
"""

from __future__ import annotations

import contextlib
from typing import Final

from gateway.base.sizes import KIB, MIB

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 128 * KIB
#: Blocks up to this size are kept, and so much of them in all.
_KEPT_BLOCK_BYTES: Final = 4 * MIB
_KEPT_BYTES: Final = 16 * MIB


def keep_blocks_of_requests() -> None:
    """Have the memory of requests with large batches kept for the next ones, up to 16 MiB."""
    _set((_M_MMAP_THRESHOLD, _KEPT_BLOCK_BYTES), (_M_TRIM_THRESHOLD, _KEPT_BYTES))


def return_large_blocks() -> None:
    """Have the memory of each large response returned to the system at once.

    glibc keeps freed blocks of up to 32 MiB, in one arena for each thread: eight threads that read
    a large response each would hold eight of them.
    """
    _set((_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES))


def _set(*parameters: tuple[int, int]) -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # a C library without mallopt
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, value in parameters:
            mallopt(parameter, value)
