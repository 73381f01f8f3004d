"""Opens the listening sockets of the configuration and accepts connections from them.

It decides on no connection: ``connections`` admits or closes each. Kafka's counterpart is
``SocketServer.Acceptor``.
"""

from __future__ import annotations

import enum
import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from gateway.config.config import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gateway.config.config import Config, Listener
    from gateway.server.clients.connections import Connections
    from gateway.server.logging.logs import Reports

#: Errors of accept(2) that mean: no descriptor or memory is left for another connection now.
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
#: Delay until the next attempt after such an error, s.
_FULL_WAIT_S: Final = 0.1
#: Connections accepted before other tasks run.
_ACCEPTS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listening socket, with the address that the system gave it (port 0 in, a free one out)."""

    name: str
    sock: socket.socket
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bind_listeners(
    config: Config, shared: Collection[str] = (), ports: Sequence[Listener] | None = None
) -> list[BoundListener]:
    """Listen on every listener of the configuration, or on none.

    The listeners named in ``shared`` let other processes of this user listen at the same port
    (SO_REUSEPORT): the system then gives each new connection to one of them. ``ports`` are
    listeners that another process shares, instead of those of the configuration. Raises
    ConfigError, which names the listener that failed.
    """
    bound_listeners: list[BoundListener] = []
    try:
        for listener in config.listeners if ports is None else ports:
            share = _Share.NO if listener.name not in shared else _Share.OFFER
            share = share if ports is None else _Share.JOIN
            bound_listeners.append(_open(listener, config.socket_listen_backlog_size, share))
    except (OSError, UnicodeError) as error:  # a host that IDNA refuses is a UnicodeError
        for bound_listener in bound_listeners:
            bound_listener.sock.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"listeners: cannot listen at {listener}: {reason}") from None
    return bound_listeners


class _Share(enum.Enum):
    """Whether a port is shared. OFFER fails where another server has it; JOIN shares it."""

    NO = enum.auto()
    OFFER = enum.auto()
    JOIN = enum.auto()


def _open(listener: Listener, backlog: int, share: _Share) -> BoundListener:
    addresses = socket.getaddrinfo(
        listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = addresses[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        if share is _Share.JOIN:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
        # Only now: before, the port of another server with workers would be taken without an error.
        if share is _Share.OFFER:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    host, port = sock.getsockname()[:2]
    return BoundListener(listener.name, sock, host, port)


async def accept(bound_listener: BoundListener, connections: Connections, reports: Reports) -> None:
    """Accept connections for ever.

    An error of one connection costs that one. While descriptors or memory are short, the task waits
    and tries again; connections queue up in the backlog meanwhile.
    """
    accepted = 0
    while True:
        try:
            sock, address = bound_listener.sock.accept()
        except BlockingIOError:
            await trio.lowlevel.wait_readable(bound_listener.sock)
        except OSError as error:
            if error.errno in _FULL:
                reports.report(
                    "connections not accepted", listener=bound_listener.name, error=error.strerror
                )
                await trio.sleep(_FULL_WAIT_S)
            else:  # the peer has disconnected: ECONNABORTED and others
                reports.counts["accept failed"] += 1
                await trio.lowlevel.checkpoint()
        else:
            connections.admit(sock, bound_listener.name, address[:2])
            accepted += 1
            if accepted % _ACCEPTS_MAX == 0:
                await trio.lowlevel.checkpoint()


def close_listeners(bound_listeners: Iterable[BoundListener]) -> None:
    """Close the sockets that are open; tasks that wait for them are told."""
    for bound_listener in bound_listeners:
        if bound_listener.sock.fileno() >= 0:
            trio.lowlevel.notify_closing(bound_listener.sock)
            bound_listener.sock.close()
