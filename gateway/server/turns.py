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

#: After a pass has taken so long, s, it serves only one more connection with much to read or send.
PASS_S: Final = 0.02
#: What is no more than this, bytes, is served at once in any pass.
SMALL_MAX: Final = 4096


class Turns(trio.abc.Instrument):
    """What requests have taken of the current pass. To be added to the instruments of the run
    (``trio.lowlevel``).
    """

    def __init__(self) -> None:
        self._spent_s = 0.0
        self._queue = trio.Lock()  # first come, first served

    @property
    def is_full(self) -> bool:
        """Whether a connection with much to read or to send has to :meth:`wait`."""
        return self._spent_s > PASS_S or self._queue.locked()

    def spent(self, seconds: float) -> None:
        """Handling requests or sending responses took so long."""
        self._spent_s += seconds

    async def wait(self) -> None:
        """Return in a later pass, in which no other connection comes out of the queue."""
        async with self._queue:
            await trio.lowlevel.checkpoint()

    def after_io_wait(self, timeout: float) -> None:
        """A pass begins."""
        self._spent_s = 0.0
