"""Encodes streamed responses in slices: one slice, then every other task of the loop, then a slice
of the next response.

One task encodes all of them. Equal requests that arrive while a response is being encoded share
it. The bytes of a response count in ``buffers.max.bytes`` from the first one encoded until the last
connection has sent them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.server.clients.output import SharedBytes
from gateway.server.counts import SliceCounter
from gateway.server.memory import Memory, ResponseMemory
from gateway.server.streamed_encoder import StreamedEncoder
from gateway.slices import SLICE_S

if TYPE_CHECKING:
    from gateway.server.counts import Counts
    from gateway.streamed import Streamed

#: A smaller response is never given up because of ``buffers.max.bytes``.
_FREE_BYTES: Final = 64 * 1024


class EncodedResponse:
    """A response whose body is encoded already. ``errors``: the error codes in it."""

    __slots__ = ("_body", "errors")

    def __init__(self, body: SharedBytes, errors: Counter[int]) -> None:
        self._body = body
        self.errors = errors

    def encode_parts(self, version: int) -> list[Any]:
        """As ``Message.encode_parts``."""
        return [self._body]


class Waiter:
    """Waits for a response: exactly one callback is called, unless the waiter is cancelled."""

    __slots__ = ("complete", "failed", "response", "too_large")

    def __init__(
        self,
        complete: Callable[[EncodedResponse], None],
        failed: Callable[[Exception], None],
        too_large: Callable[[], None],
    ) -> None:
        self.complete = complete
        self.failed = failed
        self.too_large = too_large
        self.response: _Response | None = None

    def cancel(self) -> None:
        """The connection is closed. A response without other waiters is not encoded any further."""
        if self.response is not None:
            self.response.waiters.pop(self, None)
            self.response = None


class _Response:
    """A response that is being encoded, and the connections that wait for it."""

    def __init__(
        self, streamed: Streamed, api_key: int, version: int, key: Hashable, memory: Memory
    ) -> None:
        inner = version if streamed.version is None else streamed.version
        self.encoder = StreamedEncoder(streamed, inner)
        self.wrap = streamed.wrap
        self.api_key = api_key
        self.version = version
        self.key = key
        self.waiters: dict[Waiter, None] = {}
        self.memory = ResponseMemory(memory)

    def take_waiters(self) -> list[Waiter]:
        waiters, self.waiters = list(self.waiters), {}
        for waiter in waiters:
            waiter.response = None
        return waiters


class ResponseScheduler:
    """All streamed responses that are being encoded. One task runs :meth:`run`."""

    def __init__(
        self,
        memory: Memory,
        counts: Counts,
        max_bytes: int,
        took: Callable[[float, dict[str, Any]], None],
    ) -> None:
        """Large responses are given up while ``memory`` is above ``max_bytes``. ``took`` is called
        after each long slice with its seconds and the fields of its request.
        """
        self._memory = memory
        self._max_bytes = max_bytes
        self._count = SliceCounter(counts, took)
        self._new: deque[_Response] = deque()  # without a slice so far
        self._begun: deque[_Response] = deque()
        self._shared: dict[Hashable, _Response] = {}
        self._wake = trio.Event()
        self._turn_of_begun = False

    def __len__(self) -> int:
        return len(self._new) + len(self._begun)

    def submit(self, streamed: Streamed, api_key: int, version: int, waiter: Waiter) -> None:
        """Encode ``streamed`` for ``waiter``, or let it wait for an equal response that is being
        encoded.
        """
        key = None if streamed.share_key is None else (api_key, version, streamed.share_key)
        response = None if key is None else self._shared.get(key)
        if response is None:
            response = _Response(streamed, api_key, version, key, self._memory)
            if key is not None:
                self._shared[key] = response
            self._new.append(response)
            self._wake.set()
        response.waiters[waiter] = None
        waiter.response = response

    async def run(self) -> None:
        """Encode slices, for ever."""
        while True:
            if not self._new and not self._begun:
                self._wake = trio.Event()
                await self._wake.wait()
            self._run_slice()
            await trio.lowlevel.checkpoint()

    def _next(self) -> _Response:
        """The response whose turn it is. New and begun responses alternate, so that a short one
        does not wait behind long ones.
        """
        self._turn_of_begun = not self._turn_of_begun
        first, second = (
            (self._begun, self._new) if self._turn_of_begun else (self._new, self._begun)
        )
        return (first or second).popleft()

    def _run_slice(self) -> None:
        response = self._next()
        if not response.waiters:
            self._forget(response)
            return
        began = time.perf_counter()
        try:
            done = response.encoder.run(time.perf_counter, SLICE_S)
        except Exception as error:  # a bug of a handler closes its connections, not the server
            self._forget(response)
            for waiter in response.take_waiters():
                waiter.failed(error)
            return
        self._count(response.api_key, response.version, time.perf_counter() - began)
        encoder = response.encoder
        response.memory.grow(encoder.size, encoder.shared)
        if encoder.size > _FREE_BYTES and self._memory.held > self._max_bytes:
            self._forget(response)
            for waiter in response.take_waiters():
                waiter.too_large()
        elif done:
            self._complete(response)
        else:
            self._begun.append(response)

    def _complete(self, response: _Response) -> None:
        parts = response.encoder.take()
        if response.wrap is not None:
            parts = response.wrap(parts, response.encoder.errors, response.version)
            response.memory.release()
            response.memory.grow(sum(map(len, parts)), [])
        body = SharedBytes(parts, response.memory.release)
        self._unshare(response)
        encoded = EncodedResponse(body, response.encoder.errors)
        body.hold()
        try:
            for waiter in response.take_waiters():
                waiter.complete(encoded)
        finally:
            body.release()

    def _forget(self, response: _Response) -> None:
        response.memory.release()
        self._unshare(response)

    def _unshare(self, response: _Response) -> None:
        if response.key is not None and self._shared.get(response.key) is response:
            del self._shared[response.key]
