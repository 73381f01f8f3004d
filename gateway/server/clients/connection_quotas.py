"""Limits the number of connections and picks the connection that is closed for a new one. Opens
and closes no socket.

Follows Kafka's ``ConnectionQuotas``: there are limits for the whole server, for one listener and
for one address, and a new connection to a controller listener displaces the one that was idle for
longest (KIP-402). Beyond Kafka, any new connection displaces an unproven one: its peer has neither
authenticated nor, on a listener without authentication, sent a valid request.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

    from gateway.config.config import Config
    from gateway.server.clients.connection import Connection

#: Maximum number of unproven connections at a controller listener: ``limit // _UNPROVEN_PART``, but
#: at least ``_UNPROVEN_MIN``. A flood of them then displaces its own connections, not clients.
_UNPROVEN_MIN: Final = 16
_UNPROVEN_PART: Final = 10
#: Number of idle connections that one scan of all connections collects.
_IDLE_FOUND: Final = 64


class ConnectionQuotas:
    """Counts connections by listener, address and proof.

    ``limit`` bounds all connections; ``controller_listeners`` are the listeners for nodes of the
    quorum.
    """

    def __init__(self, config: Config, limit: int, controller_listeners: Container[str]) -> None:
        self._limit = limit
        self._per_ip = config.max_connections_per_ip
        self._overrides = config.max_connections_per_ip_overrides
        self._per_listener = {
            one.name: config.listener_max_connections(one.name) for one in config.listeners
        }
        self._controller_listeners = controller_listeners
        self._unproven_max = max(_UNPROVEN_MIN, limit // _UNPROVEN_PART)
        self._all: set[Connection] = set()
        self._per_host: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._unproven: dict[str, dict[Connection, None]] = {}  # by listener, the oldest first
        # Found by the last scan of all connections, idle for longest first.
        self._idle: deque[Connection] = deque()

    def add(self, connection: Connection) -> None:
        """Count a new connection, which is unproven."""
        peer = connection.peer
        self._all.add(connection)
        self._per_host[peer.host] += 1
        self._by_listener[peer.listener] += 1
        self._unproven.setdefault(peer.listener, {})[connection] = None

    def remove(self, connection: Connection) -> None:
        """Count it no longer. May be called again."""
        if connection not in self._all:
            return
        host, listener = connection.peer.host, connection.peer.listener
        self._all.discard(connection)
        self.proved(connection)
        self._by_listener[listener] -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            # Peers choose their addresses: an entry that stays would be a leak that they control.
            del self._per_host[host]

    def proved(self, connection: Connection) -> None:
        """Note that the peer has authenticated, or sent a valid request on a listener without
        authentication.
        """
        self._unproven.get(connection.peer.listener, {}).pop(connection, None)

    def exceeded(self, listener: str, host: str) -> str | None:
        """The key of the limit that one more connection would exceed; None if none."""
        if self._per_host[host] >= self._overrides.get(host, self._per_ip):
            return "max.connections.per.ip"
        own = self._per_listener.get(listener)
        if own is not None and self._by_listener[listener] >= own:
            return f"listener.name.{listener.lower()}.max.connections"
        return (
            "max.connections"
            if len(self._all) >= self._limit or self._is_flooded(listener)
            else None
        )

    def victim(self, limit: str, listener: str) -> Connection | None:
        """The connection to close for a new one at ``listener`` when ``limit`` is reached; None if
        the new one has to be closed.

        A client displaces unproven clients only. A node of the quorum displaces the oldest unproven
        connection, else the client connection that was idle for longest, else any such connection.
        """
        if limit == "max.connections.per.ip":
            return None
        controllers = listener in self._controller_listeners
        if limit != "max.connections":
            return self._oldest_unproven([listener]) or (
                self._longest_idle({listener}) if controllers else None
            )
        clients = {name for name in self._per_listener if name not in self._controller_listeners}
        if not controllers:
            return self._oldest_unproven(clients)
        if self._is_flooded(listener):
            return self._oldest_unproven([listener])
        return (
            self._oldest_unproven(self._unproven)
            or self._longest_idle(clients)
            or self._longest_idle(self._per_listener)
        )

    def _is_flooded(self, listener: str) -> bool:
        return (
            listener in self._controller_listeners
            and len(self._unproven.get(listener, ())) >= self._unproven_max
        )

    def _oldest_unproven(self, listeners: Container[str]) -> Connection | None:
        oldest = [
            next(iter(found))
            for name, found in self._unproven.items()
            if found and name in listeners
        ]
        return min(oldest, key=lambda connection: connection.accepted_at, default=None)

    def _longest_idle(self, listeners: Container[str]) -> Connection | None:
        while self._idle:
            connection = self._idle.popleft()
            if connection in self._all and connection.peer.listener in listeners:
                return connection
        some = (connection for connection in self._all if connection.peer.listener in listeners)
        self._idle.extend(
            heapq.nsmallest(_IDLE_FOUND, some, key=lambda connection: connection.moved_at)
        )
        return self._idle.popleft() if self._idle else None
