"""Begins and completes the work of a handler that may take too long for one step of the loop.

Such a handler returns a generator, which the connection resumes
(``gateway.server.clients.connection``). The generator yields None where it may be interrupted: at
least every millisecond. It yields a function to have it called in a thread, which is for long work
that needs no state of the server, such as decoding; what the function returns, or raises, comes
back. The handler stays pure: it knows neither the clock nor the event loop. Short work is completed
at once, which costs less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gateway.ports.pending_response import Answer, NoResponse, PendingResponse, Work, WorkType
from gateway.ports.streamed import WHOLE_MAX

if TYPE_CHECKING:
    from gateway.ports.streamed import Streamed
    from kwire.message import Message


def in_slices(work: Work, size: int) -> Answer:
    """Return ``work``, or its result if ``size``, the number of its elements, is small."""
    return completed(work) if size <= WHOLE_MAX else work


def completed(work: Work) -> Message | PendingResponse | Streamed | NoResponse | None:
    """Return the result of ``work``, run to its end at once. Raises what it raises."""
    value: Any = None
    while True:
        try:
            step = work.send(value)
        except StopIteration as end:
            result: Any = end.value
            return completed(result) if isinstance(result, WorkType) else result
        value = None if step is None else step()


def begun(work: Work, steps: int) -> Answer:
    """Carry out the first ``steps`` of ``work``, which are short; return its result, or the rest of
    it. A function that the work asks for is left to a thread.
    """
    try:
        for _ in range(steps):
            step = next(work)
            if step is not None:
                return _continued(work, step)
    except StopIteration as end:
        result: Answer = end.value
        return result
    return work


def _continued(work: Work, step: Callable[[], Any] | None) -> Work:
    """Return the rest of ``work``, which waits for the result of ``step``."""
    try:
        while True:
            try:
                value = yield step
            except Exception as error:
                step = work.throw(error)
            else:
                step = work.send(value)
    except StopIteration as end:
        result: Answer = end.value
        return result
