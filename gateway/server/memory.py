"""Counts the bytes that connections hold, for the limit that they share (``buffers.max.bytes``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Memory:
    """Bytes that all connections hold: unfinished requests and unsent responses."""

    held: int = 0
