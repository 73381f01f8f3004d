"""Counts the bytes that connections hold, for the limit that they share (``buffers.max.bytes``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.ports.encoded import Encoded


@dataclass(slots=True)
class Memory:
    """Bytes that all connections hold: unfinished requests and unsent responses."""

    held: int = 0


class ResponseMemory:
    """The bytes of one response in ``Memory.held``. Encoded elements that are in several responses
    count once.
    """

    __slots__ = ("_memory", "_own", "_shared", "_shared_bytes")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._own = 0
        self._shared: list[Encoded] = []
        self._shared_bytes = 0

    def grow(self, size: int, shared: list[Encoded]) -> None:
        """Count a response that has ``size`` bytes by now, those of ``shared`` among them. Elements
        are only added to ``shared`` from one call to the next.
        """
        for one in shared[len(self._shared) :]:
            if not one.holders:
                self._memory.held += len(one.data)
            one.holders += 1
            self._shared.append(one)
            self._shared_bytes += len(one.data)
        own = size - self._shared_bytes
        self._memory.held += own - self._own
        self._own = own

    def release(self) -> None:
        """Count none of its bytes any more."""
        for one in self._shared:
            one.holders -= 1
            if not one.holders:
                self._memory.held -= len(one.data)
        self._shared, self._shared_bytes = [], 0
        self._memory.held -= self._own
        self._own = 0
