"""Accepts a worker's connections in the node while the worker does not.

The system gives each new connection to one of the sockets at a port by a hash (SO_REUSEPORT), also
to one whose process hangs or loads the image. The node has every worker's sockets too, and takes
what is queued there. It knows no process: the caller says whether the worker serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from gateway.server.clients.bound_listener import accept

if TYPE_CHECKING:
    from gateway.server.clients.bound_listener import BoundListener
    from gateway.server.clients.connections import Connections
    from gateway.server.logging.logs import Reports


async def stand_in(
    bound_listeners: Sequence[BoundListener],
    connections: Connections,
    reports: Reports,
    serves: Callable[[], bool],
    changed: Callable[[], trio.Event],
    tick_s: float,
) -> None:
    """Accept connections for ever, whenever ``serves()`` is False.

    It is asked every ``tick_s`` seconds, and when the event that ``changed`` returns is set.
    """
    while True:
        await _until(lambda: not serves(), changed, tick_s)
        async with trio.open_nursery() as acceptors:
            for one in bound_listeners:
                acceptors.start_soon(accept, one, connections, reports)
            await _until(serves, changed, tick_s)
            acceptors.cancel_scope.cancel()


async def _until(
    condition: Callable[[], bool], changed: Callable[[], trio.Event], tick_s: float
) -> None:
    while not condition():
        with trio.move_on_after(tick_s):
            await changed().wait()
