"""Runs a network between the nodes of a cluster that can be cut in one or both directions, slowed
down and reset.

One proxy stands before each listener of a node, at the address that others use. It recognizes the
calling node by the client id of the first request on a connection, in which Kafka's and kwire's
nodes have their node ids (``raft-client-1``, ``broker-1-fetcher-0``, ``1``); it lets all other
connections through. A cut holds bytes back as a
network that loses packets does: connections stay open, and the bytes arrive after healing unless a
side has closed the connection before.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

#: The name of a controller's listener.
CONTROLLER = "CONTROLLER"
_CHUNK = 1 << 16
#: Size, API key, version, correlation id, length of the client id.
_HEAD = struct.Struct(">ihhih")
_CLIENT_ID = re.compile(rb"(?:raft-client-|(?:kwire|broker)-)?(\d+)(?:-.*)?")
#: A caller that is not a node, or has not sent its first request.
_UNKNOWN_CALLER = -1


@dataclass
class _Way:
    """The bytes from one node to another. ``open`` is False while they are cut off."""

    open: bool = True
    delay_s: float = 0.0


class Network:
    """``with Network({1: ("host", port), ...}) as network``: proxies in threads, one for each node
    and the real address of its controller's listener. More may be added.
    """

    def __init__(self, targets: Mapping[int, tuple[str, int]] | None = None) -> None:
        self._changed = threading.Condition()
        self._ways: dict[tuple[int, int], _Way] = {}
        self._proxies: dict[tuple[int, str], _Proxy] = {}
        for node, target in (targets or {}).items():
            self.add(node, target)
        #: Bytes passed on, by (from, to).
        self.passed: dict[tuple[int, int], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and listeners."""
        for proxy in self._proxies.values():
            proxy.close()

    def add(self, node: int, target: tuple[str, int], listener: str = CONTROLLER) -> None:
        """Put a proxy before a listener of a node, if there is none yet."""
        if (node, listener) not in self._proxies:
            self._proxies[node, listener] = _Proxy(self, node, target)

    def address(self, node: int, listener: str = CONTROLLER) -> str:
        """``host:port`` of the proxy before a listener of a node. Raises KeyError."""
        return f"127.0.0.1:{self._proxies[node, listener].port}"

    def listeners(self, node: int) -> dict[str, str]:
        """``host:port`` of the proxy before each listener of a node, by its name."""
        return {
            listener: self.address(node, listener) for one, listener in self._proxies if one == node
        }

    def cut(self, source: int, target: int) -> None:
        """Cut off the bytes from ``source`` to ``target``; the other direction stays open."""
        self._change(source, target, open=False)

    def isolate(self, node: int) -> None:
        """Cut a node off from all others, both ways."""
        for other, _ in self._proxies:
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def delay(self, source: int, target: int, seconds: float) -> None:
        """Delay every piece that ``source`` sends to ``target`` by this time."""
        self._change(source, target, delay_s=seconds)

    def heal(self) -> None:
        """Remove all cuts and delays."""
        with self._changed:
            self._ways.clear()
            self._changed.notify_all()

    def reset(self, source: int, target: int) -> int:
        """Break the connections between two nodes with RST, in both directions; returns how many
        there were.
        """
        return sum(
            proxy.reset(caller)
            for caller, callee in ((source, target), (target, source))
            for (node, _), proxy in self._proxies.items()
            if node == callee
        )

    def _change(
        self, source: int, target: int, *, open: bool | None = None, delay_s: float | None = None
    ) -> None:
        with self._changed:
            way = self._ways.setdefault((source, target), _Way())
            way.open = way.open if open is None else open
            way.delay_s = way.delay_s if delay_s is None else delay_s
            self._changed.notify_all()

    def let_through(self, source: int, target: int, closed: threading.Event) -> None:
        """Return when a piece may be forwarded, or its connection is closed."""
        if not self._ways:
            return
        with self._changed:
            self._changed.wait_for(lambda: closed.is_set() or self._way(source, target).open)
            delay_s = self._way(source, target).delay_s
        if delay_s:
            closed.wait(delay_s)

    def wake(self) -> None:
        """Wake the threads that hold bytes of a closed connection."""
        with self._changed:
            self._changed.notify_all()

    def count(self, source: int, target: int, size: int) -> None:
        """Count a piece that is forwarded."""
        with self._changed:
            self.passed[source, target] = self.passed.get((source, target), 0) + size

    def _way(self, source: int, target: int) -> _Way:
        return self._ways.get((source, target), _OPEN)


_OPEN = _Way()


class _Proxy:
    """The listener before one node."""

    def __init__(self, network: Network, node: int, target: tuple[str, int]) -> None:
        self._network, self._node, self._target = network, node, target
        self._connections: set[_Connection] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name=f"proxy of node {node}", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(
                socket.SHUT_RDWR
            )  # close() alone does not wake the thread in accept()
        self._listener.close()
        for connection in self._all():
            connection.close()

    def reset(self, source: int) -> int:
        chosen = [connection for connection in self._all() if connection.source == source]
        for connection in chosen:
            connection.close(reset=True)
        return len(chosen)

    def _all(self) -> list[_Connection]:
        with self._lock:
            return list(self._connections)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            connection = _Connection(self._network, self._node, caller)
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: _Connection) -> None:
        try:
            connection.serve(self._target)
        finally:
            with self._lock:
                self._connections.discard(connection)


class _Connection:
    """One caller, and the connection to the node made for it."""

    def __init__(self, network: Network, node: int, caller: socket.socket) -> None:
        self.source = _UNKNOWN_CALLER
        self._network, self._node, self._caller = network, node, caller
        self._callee: socket.socket | None = None
        self._closing = threading.Lock()
        self._closed = threading.Event()

    def serve(self, target: tuple[str, int]) -> None:
        """Forward in both directions until either side closes. If the node does not listen, reset
        the caller's connection.
        """
        try:
            first = self._first_bytes()
            self._network.let_through(self.source, self._node, self._closed)
            self._callee = socket.create_connection(target, timeout=5)
            self._callee.settimeout(None)
        except OSError:
            self.close(reset=True)
            return
        for one in (self._caller, self._callee):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(
            target=self._forward,
            args=(self._callee, self._caller, self._node, self.source),
            daemon=True,
        )
        back.start()
        self._forward(self._caller, self._callee, self.source, self._node, first)
        back.join()

    def close(self, *, reset: bool = False) -> None:
        """Close both sides; the first call decides how."""
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
        self._network.wake()
        for one in (self._caller, self._callee):
            if one is not None:
                with contextlib.suppress(OSError):
                    if reset:  # no FIN, but RST, once no thread waits in recv() any more
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
                one.close()

    def _first_bytes(self) -> bytes:
        """Return the beginning of the first request, which names the caller."""
        data = b""
        while len(data) < _HEAD.size or len(data) < _HEAD.size + max(0, _HEAD.unpack_from(data)[4]):
            piece = self._caller.recv(_CHUNK)
            if not piece:
                break
            data += piece
        if found := _CLIENT_ID.fullmatch(_client_id(data)):
            self.source = int(found[1])
        return data

    def _forward(
        self,
        receiver: socket.socket,
        sender: socket.socket,
        source: int,
        target: int,
        piece: bytes = b"",
    ) -> None:
        try:
            while piece := piece or receiver.recv(_CHUNK):
                self._network.let_through(source, target, self._closed)
                self._network.count(source, target, len(piece))
                sender.sendall(piece)
                piece = b""
            self._network.let_through(
                source, target, self._closed
            )  # the end of a connection is no faster than its bytes
        except OSError:
            pass
        self.close()


def _client_id(data: bytes) -> bytes:
    if len(data) < _HEAD.size:
        return b""
    size = _HEAD.unpack_from(data)[4]
    return data[_HEAD.size : _HEAD.size + max(0, size)]
