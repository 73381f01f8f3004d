"""The server as a whole: listeners, connections and their helpers, from the first accept to the last answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from gateway.server.connections import Connections
from gateway.server.listener import accept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.server.hub import Hub
    from gateway.server.listener import Door


async def run_server(
    hub: Hub,
    doors: Sequence[Door],
    stop: trio.Event,
    last_call: Callable[[], None] = lambda: None,
    *,
    task_status: trio.TaskStatus[Connections] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stop``, then drain: accept no more, answer what waits with what there is, close.

    Takes at most ``drain.timeout.ms`` for that. ``last_call`` is called when no more requests are taken: who holds answers
    back gives them now. Closes the doors in any case.
    """
    try:
        async with trio.open_nursery() as nursery:
            connections = Connections(hub, nursery)
            nursery.start_soon(hub.purgatory.run)
            nursery.start_soon(connections.reap)
            async with trio.open_nursery() as acceptors:
                for door in doors:
                    acceptors.start_soon(accept, door, connections, hub.reports)
                task_status.started(connections)
                await stop.wait()
                acceptors.cancel_scope.cancel()
            _close(doors)
            await connections.drain(last_call, hub.config.drain_timeout_ms / 1000)
            nursery.cancel_scope.cancel()
    finally:
        _close(doors)


def _close(doors: Sequence[Door]) -> None:
    for door in doors:
        if door.sock.fileno() >= 0:
            trio.lowlevel.notify_closing(door.sock)
            door.sock.close()
