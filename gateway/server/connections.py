"""All connections of the server: how many there may be, which have outstayed a limit of time, and how they end."""

from __future__ import annotations

import contextlib
import itertools
import re
import resource
import socket
from collections import Counter
from typing import TYPE_CHECKING, Final

import trio

from gateway.handlers.context import Peer
from gateway.security.ssl_principal import ANONYMOUS
from gateway.server.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.config import Config
    from gateway.server.hub import Hub

#: File descriptors kept for everything that is no connection: the log's segments, listeners, the group store.
_FILES_RESERVED: Final = 64
#: A peer on this machine, as Linux writes its address.
_LOCAL: Final = re.compile(r"(::ffff:)?127\.|::1$")
#: How such a peer is sent to. There is no path to probe, and the pacing of BBR, the default of some systems, takes up to
#: half of the time of a large answer. Every kernel has this one, and lets everybody use it.
_LOCAL_CONGESTION: Final = b"reno"
#: Connections looked at by the reaper before others get their turn.
_SLICE: Final = 1000


class Connections:
    """Admits connections, runs a task each in ``nursery``, and ends the overdue ones."""

    def __init__(self, hub: Hub, nursery: trio.Nursery) -> None:
        self._hub = hub
        self._nursery = nursery
        self._limit = connection_limit(hub.config)
        self._all: set[Connection] = set()
        self._per_host: Counter[str] = Counter()
        self._numbers = itertools.count(1)
        self._none_left = trio.Event()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, sock: socket.socket, listener: str, address: tuple[str, int]) -> None:
        """Serve an accepted socket (closed at once beyond a limit)."""
        host, port = address
        config, reports = self._hub.config, self._hub.reports
        over = None
        if len(self._all) >= self._limit:
            over = "max.connections"
        elif self._per_host[host] >= config.max_connections_per_ip:
            over = "max.connections.per.ip"
        if over is not None:
            sock.close()
            reports.report("connection refused", "warning", listener=listener, peer=f"{host}:{port}", error=over)
            return
        try:
            _prepare(sock, host, config)
        except OSError:  # reset between connect and accept
            sock.close()
            return
        peer = Peer(listener, ANONYMOUS, host, port, next(self._numbers))
        connection = Connection(sock, peer, self._hub)
        self._all.add(connection)
        self._per_host[host] += 1
        self._hub.counts.connections[listener] += 1
        reports.counts["connection accepted"] += 1
        self._nursery.start_soon(self._serve, connection)

    async def reap(self) -> None:
        """Cut connections that are overdue, for ever; a limit is noticed a tenth of it late at most."""
        config = self._hub.config
        shortest_ms = min(config.connections_max_idle_ms, config.request_receive_timeout_ms, config.response_send_timeout_ms)
        while True:
            await trio.sleep(min(5.0, shortest_ms / 10_000))
            for number, connection in enumerate(list(self._all)):
                if number % _SLICE == _SLICE - 1:
                    await trio.lowlevel.checkpoint()
                reason = connection.overdue(trio.current_time())
                if reason is not None:
                    connection.cut(reason)

    async def drain(self, last_call: Callable[[], None], timeout_s: float) -> None:
        """Let every connection send what it has, for at most ``timeout_s``, then cut the rest."""
        for connection in list(self._all):
            connection.drain()
        self._hub.purgatory.expire_all()
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
            self._hub.counts.connections[connection.peer.listener] -= 1
            host = connection.peer.host
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]  # addresses are for peers to choose: keep none that is gone
            if not self._all:
                self._none_left.set()


def connection_limit(config: Config) -> int:
    """``max.connections``, or what the system's limit of open files leaves room for; raises that limit as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.max_connections + _FILES_RESERVED
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        raised = wanted if hard == unlimited else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return config.max_connections if soft == unlimited else max(1, min(config.max_connections, soft - _FILES_RESERVED))


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
