"""Sends and receives messages over one end of a socket pair, between the node and a worker.

Messages arrive in the order in which they were sent, and sending never waits: a message that the
socket does not take at once is queued. It knows no message.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

import trio

from gateway.base.sizes import KIB
from gateway.base.slices import SLICE_S
from gateway.server.workers.messages import MESSAGE_MAX, decode, encode
from kwire.frame import FrameSplitter

#: Bytes of one call of recv.
_RECEIVE: Final = 256 * KIB


class Link:
    """One end. :meth:`run` sends what is queued; :meth:`messages` receives."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._queue: deque[memoryview] = deque()
        self._queued = trio.Event()
        self._splitter = FrameSplitter(MESSAGE_MAX)

    def send(self, message: Any) -> None:
        """Send a message, or queue it. A message to an end that is closed is dropped."""
        data = memoryview(encode(message))
        if not self._queue:
            data = self._send_now(data)
        if data:
            self._queue.append(data)
            self._queued.set()

    async def run(self) -> None:
        """Send what is queued until cancelled."""
        while True:
            while self._queue:
                await trio.lowlevel.wait_writable(self._sock)
                while self._queue:
                    left = self._send_now(self._queue[0])
                    if left:
                        self._queue[0] = left
                        break
                    self._queue.popleft()
            self._queued = trio.Event()
            await self._queued.wait()

    async def messages(self) -> AsyncIterator[Any]:
        """Yield messages until the other end is closed. Other tasks run after ``SLICE_S`` at the
        latest, or after the message that took longer.
        """
        ends_at = trio.current_time() + SLICE_S
        while True:
            while (data := self._splitter.next_frame()) is not None:
                yield decode(data)
                if trio.current_time() >= ends_at:
                    await trio.lowlevel.checkpoint()
                    ends_at = trio.current_time() + SLICE_S
            try:
                received = self._sock.recv(_RECEIVE)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._sock)
                ends_at = trio.current_time() + SLICE_S
                continue
            except OSError:  # reset: the other process was killed
                return
            if not received:
                return
            self._splitter.feed(received)

    def close(self) -> None:
        """Close this end; the other process notices."""
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    def _send_now(self, data: memoryview) -> memoryview:
        """Send the bytes that the socket takes; return the rest, which is empty if the peer has
        closed the link.
        """
        try:
            while data:
                data = data[self._sock.send(data) :]
        except BlockingIOError:
            return data
        except OSError:  # the other process has ended: messages() notices, too
            return data[:0]
        return data
