"""Keeps the set of all client connections: admits them, ends overdue ones, drains them at the end.

It does not serve a connection: ``connection`` does. ``ConnectionQuotas`` decides how many there may
be.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
from typing import TYPE_CHECKING, Final

import trio

from gateway.base.open_files import FILES_RESERVED, open_files, open_files_limit
from gateway.config.config import SourceKind
from gateway.handlers.context import Peer
from gateway.security.ssl_principal import ANONYMOUS
from gateway.server.clients.connection import Connection
from gateway.server.clients.connection_quotas import ConnectionQuotas

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.config.config import Config
    from gateway.server.clients.server_context import ServerContext

#: An address of a peer on the same host, as Linux writes it.
_LOCAL: Final = re.compile(r"(::ffff:)?127\.|::1$")
#: The congestion control for such a peer. There is no path to probe, and the pacing of BBR, the
#: default of some systems, takes up to half of the time of a large response. Every kernel has reno
#: and lets unprivileged processes use it.
_LOCAL_CONGESTION: Final = b"reno"
#: Connections that the reaper examines before other tasks run.
_SLICE: Final = 1000


class Connections:
    """The open connections; each has a task in ``nursery``."""

    def __init__(self, server_context: ServerContext, nursery: trio.Nursery) -> None:
        self._server_context = server_context
        self._nursery = nursery
        config = server_context.config
        is_controller = config.source_kind is SourceKind.CONTROLLER
        controller_listeners = config.controller_listener_names if is_controller else ()
        self._quotas = ConnectionQuotas(config, connection_limit(config), controller_listeners)
        self._all: set[Connection] = set()
        self._numbers = itertools.count(1)
        self._none_left = trio.Event()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, sock: socket.socket, listener: str, address: tuple[str, int]) -> None:
        """Serve an accepted socket from ``address``, its peer's host and port.

        Above a limit, either another connection is cut in its favour or it is closed at once
        (``ConnectionQuotas.victim``).
        """
        host, port = address
        config, reports = self._server_context.config, self._server_context.reports
        over = self._quotas.exceeded(listener, host)
        if over is not None:
            victim = self._quotas.victim(over, listener)
            if victim is None:
                sock.close()
                reports.report(
                    "connection refused",
                    listener=listener,
                    peer=f"{host}:{port}",
                    error=over,
                )
                return
            self._quotas.remove(victim)
            victim.cut(over)
        try:
            _prepare(sock, host, config)
        except OSError:  # reset between connect and accept
            sock.close()
            return
        peer = Peer(listener, ANONYMOUS, host, port, next(self._numbers))
        connection = Connection(sock, peer, self._server_context, self._quotas.proved)
        self._all.add(connection)
        self._quotas.add(connection)
        self._server_context.counts.connections[listener] += 1
        reports.counts["connection accepted"] += 1
        self._nursery.start_soon(self._serve, connection)

    async def reap(self) -> None:
        """Cut connections that exceed a time limit, for ever.

        A connection is cut at most a tenth of its limit too late.
        """
        config = self._server_context.config
        shortest_ms = min(
            config.connections_max_idle_ms,
            config.first_request_timeout_ms,
            config.request_receive_timeout_ms,
            config.response_send_timeout_ms,
        )
        while True:
            await trio.sleep(min(5.0, shortest_ms / 10_000))
            for number, connection in enumerate(list(self._all)):
                if number % _SLICE == _SLICE - 1:
                    await trio.lowlevel.checkpoint()
                reason = connection.overdue(trio.current_time())
                if reason is not None:
                    connection.cut(reason)

    async def drain(self, last_call: Callable[[], None], timeout_s: float) -> None:
        """Let every connection send its responses for at most ``timeout_s``, then cut the rest.

        Pending responses are expired; ``last_call`` is called after that, to complete others.
        """
        for connection in list(self._all):
            connection.drain()
        self._server_context.purgatory.expire_all()
        last_call()
        with trio.move_on_after(timeout_s):
            while self._all:
                self._none_left = trio.Event()
                await self._none_left.wait()
        for connection in list(self._all):
            connection.cut("the server stops")

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            self._all.discard(connection)
            self._quotas.remove(connection)
            self._server_context.counts.connections[connection.peer.listener] -= 1
            if not self._all:
                self._none_left.set()


def connection_limit(config: Config) -> int:
    """``max.connections``, or fewer if the system's limit of open files requires it.

    Raises that limit as far as the process may.
    """
    reserved = FILES_RESERVED + open_files()
    limit = open_files_limit(config.max_connections + reserved)
    return max(1, min(config.max_connections, limit - reserved))


def _prepare(sock: socket.socket, host: str, config: Config) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if _LOCAL.match(host) and hasattr(socket, "TCP_CONGESTION"):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _LOCAL_CONGESTION)
    if config.socket_send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
    if config.socket_receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
