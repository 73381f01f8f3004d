"""Encodes streamed responses in slices, which the work scheduler runs.

Equal requests that arrive while a response is being encoded share it. The bytes of a response count
in ``buffers.max.bytes`` from the first one encoded until the last connection has sent them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.base.slices import SLICE_S
from gateway.server.clients.output import SharedBytes
from gateway.server.scheduling.memory import Memory, ResponseMemory
from gateway.server.scheduling.streamed_encoder import StreamedEncoder
from gateway.server.scheduling.work_scheduler import Job

if TYPE_CHECKING:
    from gateway.ports.streamed import Streamed
    from gateway.server.scheduling.work_scheduler import Steps, WorkScheduler

#: A smaller response is never given up because of ``buffers.max.bytes``.
_FREE_BYTES: Final = 64 * 1024


class EncodedResponse:
    """A response whose body is encoded already. ``errors``: the error codes in it."""

    __slots__ = ("body", "errors")

    def __init__(self, body: SharedBytes, errors: Counter[int]) -> None:
        self.body = body
        self.errors = errors

    def encode_parts(self, version: int) -> list[Any]:
        """As ``Message.encode_parts``."""
        return [self.body]


class _TooLarge(Exception):
    """The response does not fit into ``buffers.max.bytes``."""


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
        """The connection is closed. A response without other waiters is given up."""
        response, self.response = self.response, None
        if response is not None:
            del response.waiters[self]
            if not response.waiters:
                response.scheduler.give_up(response)


class _Response:
    """A response that is being encoded, and the connections that wait for it."""

    def __init__(
        self, scheduler: ResponseScheduler, streamed: Streamed, version: int, key: Hashable
    ) -> None:
        inner = version if streamed.version is None else streamed.version
        self.encoder = StreamedEncoder(streamed, inner)
        self.wrap = streamed.wrap
        self.version = version
        self.key = key
        self.waiters: dict[Waiter, None] = {}
        self.memory = ResponseMemory(scheduler.memory)
        self.scheduler = scheduler

    def take_waiters(self) -> list[Waiter]:
        waiters, self.waiters = list(self.waiters), {}
        for waiter in waiters:
            waiter.response = None
        return waiters


class ResponseScheduler:
    """All streamed responses that are being encoded."""

    def __init__(self, memory: Memory, max_bytes: int, work: WorkScheduler) -> None:
        """Large responses are given up while ``memory`` is above ``max_bytes``."""
        self.memory = memory
        self._max_bytes = max_bytes
        self._work = work
        self._jobs: dict[_Response, Job] = {}
        self._shared: dict[Hashable, _Response] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, streamed: Streamed, api_key: int, version: int, waiter: Waiter) -> None:
        """Encode ``streamed`` for ``waiter``, or let it wait for an equal response that is being
        encoded.
        """
        key = None if streamed.share_key is None else (api_key, version, streamed.share_key)
        response = None if key is None else self._shared.get(key)
        if response is None:
            response = _Response(self, streamed, version, key)
            if key is not None:
                self._shared[key] = response
            completed, failed = partial(self._complete, response), partial(self._fail, response)
            job = Job(self._encode(response), api_key, version, completed, failed)
            self._jobs[response] = job
            self._work.submit(job)
        response.waiters[waiter] = None
        waiter.response = response

    def _encode(self, response: _Response) -> Steps:
        encoder, memory = response.encoder, response.memory
        while True:
            is_done = encoder.run(time.perf_counter, SLICE_S)
            memory.grow(encoder.size, encoder.shared)
            if encoder.size > _FREE_BYTES and self.memory.held > self._max_bytes:
                raise _TooLarge
            if is_done:
                break
            yield None
        parts: list[Any] = encoder.take()
        if response.wrap is not None:
            parts = response.wrap(parts, encoder.errors, response.version)
            memory.release()
            memory.grow(sum(map(len, parts)), [])
        return parts

    def _complete(self, response: _Response, parts: list[Any]) -> None:
        body = SharedBytes(parts, response.memory.release)
        self._forget(response)
        encoded = EncodedResponse(body, response.encoder.errors)
        body.hold()
        try:
            for waiter in response.take_waiters():
                waiter.complete(encoded)
        finally:
            body.release()

    def _fail(self, response: _Response, error: Exception) -> None:
        response.memory.release()
        self._forget(response)
        for waiter in response.take_waiters():
            if isinstance(error, _TooLarge):
                waiter.too_large()
            else:  # a bug of a handler closes its connections, not the server
                waiter.failed(error)

    def give_up(self, response: _Response) -> None:
        """Encode a response no further."""
        response.memory.release()
        self._forget(response).cancel()

    def _forget(self, response: _Response) -> Job:
        if response.key is not None:
            del self._shared[response.key]
        return self._jobs.pop(response)
