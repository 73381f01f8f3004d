"""Runs listeners and connections, from the first accept to the end of the drain.

``gateway.app`` starts the source, the groups and the controller, which this module does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from gateway.server.clients.bound_listener import accept, close_listeners
from gateway.server.clients.connections import Connections

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from gateway.server.clients.bound_listener import BoundListener
    from gateway.server.clients.server_context import ServerContext


async def run_server(
    server_context: ServerContext,
    bound_listeners: Sequence[BoundListener],
    stop: trio.Event,
    last_call: Callable[[], None] = lambda: None,
    stop_workers: Callable[[], Awaitable[None]] | None = None,
    *,
    task_status: trio.TaskStatus[Connections] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stop``, then drain: accept no connection, complete waiting requests with the
    data that there is, and close the connections.

    The drain takes at most ``drain.timeout.ms``. ``last_call`` is called when no more requests are
    read: it has to complete responses that wait for an event. ``stop_workers`` drains the other
    processes meanwhile, whose requests are still handled here. The listeners are closed in any
    case.
    """
    trio.lowlevel.add_instrument(server_context.turns)
    trio.lowlevel.add_instrument(server_context.watchdog)
    try:
        async with trio.open_nursery() as nursery:
            connections = Connections(server_context, nursery)
            nursery.start_soon(server_context.purgatory.run)
            nursery.start_soon(server_context.work.run)
            nursery.start_soon(connections.reap)
            async with trio.open_nursery() as acceptors:
                for bound_listener in bound_listeners:
                    acceptors.start_soon(
                        accept, bound_listener, connections, server_context.reports
                    )
                task_status.started(connections)
                await stop.wait()
                acceptors.cancel_scope.cancel()
            close_listeners(bound_listeners)
            async with trio.open_nursery() as draining:
                if stop_workers is not None:
                    draining.start_soon(stop_workers)
                await connections.drain(last_call, server_context.config.drain_timeout_ms / 1000)
            nursery.cancel_scope.cancel()
    finally:
        trio.lowlevel.remove_instrument(server_context.turns)
        trio.lowlevel.remove_instrument(server_context.watchdog)
        close_listeners(bound_listeners)
