"""Shares one pass of the event loop among connections, so that many large requests or responses at
once do not delay small ones.

Trio runs all tasks that are ready before it looks at the sockets again. A single request is bounded
(``request.max.elements``) and so is the turn of one connection, but a thousand connections that are
ready at once would keep raft and small requests waiting for the sum. Connections with much to read
or to send therefore queue up as soon as a pass has taken ``PASS_S``, and one of them is served in
each pass. Kafka has threads for that (``num.network.threads``, ``num.io.threads``).
"""

from __future__ import annotations

from typing import Final

import trio

#: A pass that has taken this long, s, serves one more connection with much to read or send.
PASS_S: Final = 0.02
#: Reads and writes up to this size, bytes, are served at once in any pass.
SMALL_MAX: Final = 4096


class LoopPassBudget(trio.abc.Instrument):
    """Counts the time that requests have taken in the current pass.

    A trio instrument: the server adds it to the run (``trio.lowlevel.add_instrument``).
    """

    def __init__(self) -> None:
        self._spent_s = 0.0
        self._queue = trio.Lock()  # first come, first served

    @property
    def is_full(self) -> bool:
        """True if a connection with much to read or send has to :meth:`wait`."""
        return self._spent_s > PASS_S or self._queue.locked()

    def spent(self, seconds: float) -> None:
        """Add ``seconds`` that handling requests or sending responses took."""
        self._spent_s += seconds

    async def wait(self) -> None:
        """Return in a later pass. Only one waiting connection returns in a pass."""
        async with self._queue:
            await trio.lowlevel.checkpoint()

    def after_io_wait(self, timeout: float) -> None:
        """Called by trio when a pass begins."""
        self._spent_s = 0.0
