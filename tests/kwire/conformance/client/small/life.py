"""Holds what a run of a small client shares: its fault, its output, and the wish that it ends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Ended(Exception):
    """The client ends by itself; ``status`` is its exit status."""

    def __init__(self, status: int = 1) -> None:
        super().__init__(status)
        self.status = status


class Stopped(Exception):
    """The client was asked to end."""


class Life:
    """One run. ``say`` takes each line of output."""

    def __init__(self, fault: str, say: Callable[[str], None]) -> None:
        self.say = say
        self._fault = fault
        self._stopping = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._is_cut = False

    def has(self, *words: str) -> bool:
        """Whether the client has one of these faults."""
        return self._fault in words

    def dies_of(self, *words: str) -> None:
        """End with an error if the client has one of these faults."""
        if self.has(*words):
            raise Ended

    def stop(self) -> None:
        """Ask the client to end, as SIGTERM does."""
        self._stopping.set()

    def wait(self, seconds: float) -> None:
        """Wait. Raises Stopped once the client is asked to end."""
        if self._stopping.wait(max(seconds, 0.0)):
            raise Stopped

    def connect(self, address: tuple[str, int]) -> socket.socket:
        """A connection that :meth:`cut` closes. Raises OSError."""
        made = socket.create_connection(address, timeout=20)
        self._sockets.add(made)
        if self._is_cut:  # in another thread, which did not find this connection
            self.cut()
            raise OSError("the client is cut")
        return made

    def cut(self) -> None:
        """Close every connection, made or being made, so that no read waits any longer."""
        self._is_cut = True
        for one in list(self._sockets):
            with contextlib.suppress(OSError):  # it is closed already
                one.shutdown(socket.SHUT_RDWR)
            one.close()
