"""Serves ``/metrics``, ``/livez``, ``/readyz`` and ``/status`` over HTTP/1.1, on a port of its own.

Only GET and HEAD are served, without bodies, and no request changes anything. At most one page is
made in a turn of the event loop, so that many scrapers do not delay Kafka's clients. The content of
the pages is made by ``metrics`` and ``status``.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

import h11
import trio

from gateway.address import Address, parse_address, shown
from gateway.config import ConfigError
from gateway.server.clients.bound_listener import BoundListener
from gateway.server.http_hosts import AllowedHosts
from gateway.server.management.http_connections import CONNECTIONS_MAX, Answer, HttpConnections
from gateway.server.management.metrics import Metrics
from gateway.server.management.status import readyz, status
from gateway.server.slices_task import carried_out

if TYPE_CHECKING:
    from gateway.server.management.facts import Facts

_MISDIRECTED: Final = (
    b"The host %s is not served here: ask for an IP address or localhost, or name the host in"
    b" management.allowed.hosts.\n"
)
#: Pages with counts, which are those of all workers together.
_WITH_COUNTS: Final = ("/metrics", "/status")
#: Delay after an accept that failed, s.
_FULL_WAIT_S: Final = 0.1


def management_address(text: str) -> Address:
    """Parse ``HOST:PORT``, ``[IPV6]:PORT`` or ``PORT`` (on loopback). Raises ConfigError.

    ``http://`` may stand before it. Port 0 is allowed: the system picks a free one.
    """
    where = text.strip()
    scheme, separator, rest = where.partition("://")
    if separator and scheme.lower() == "http":
        where = rest.removesuffix("/")
    elif separator:
        raise ConfigError(
            f"management.listener: {shown(where)}: only http is served;"
            " put a proxy before it for TLS, and give HOST:PORT"
        )
    try:
        return parse_address(f"127.0.0.1:{where}" if where.isdecimal() else where, least_port=0)
    except ValueError as error:
        raise ConfigError(
            f"management.listener: {error}:"
            " 127.0.0.1:9464 serves this machine alone, 0.0.0.0:9464 every host"
        ) from None


def open_management(text: str) -> BoundListener:
    """Listen at an address that :func:`management_address` can parse. Raises ConfigError."""
    host, port = management_address(text)
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.create_server(address, family=family, backlog=CONNECTIONS_MAX)
    except (OSError, UnicodeError) as error:  # a name that cannot be a host is a UnicodeError
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"management.listener: cannot listen at {text.strip()}: {reason}"
        ) from None
    sock.setblocking(False)
    return BoundListener("management", sock, *sock.getsockname()[:2])


async def serve_management(
    sock: socket.socket,
    facts: Facts,
    allowed_hosts: Collection[str] = (),
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the listening socket ``sock`` until cancelled, then close it.

    ``allowed_hosts``: host names that a request may name (``AllowedHosts``).
    """
    reports = facts.server_context.reports
    async with (
        trio.open_nursery() as nursery,
        trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener,
    ):
        http_connections = HttpConnections(
            nursery, Pages(facts, AllowedHosts(allowed_hosts)).answer, reports
        )
        task_status.started()
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                # No file descriptor or memory is left; trio itself handles errors of one peer.
                reports.report(
                    "connections not accepted", listener="management", error=error.strerror
                )
                await trio.sleep(_FULL_WAIT_S)
            else:
                http_connections.admit(stream)


class Pages:
    """Answers requests for the pages."""

    def __init__(self, facts: Facts, hosts: AllowedHosts) -> None:
        self._facts = facts
        self._hosts = hosts
        self._metrics = Metrics(facts)
        self._one = trio.Lock()  # held while a page is made
        self._pages: dict[str, Callable[[h11.Request, Facts], Answer]] = {
            "/metrics": self._show_metrics,
            "/livez": self._show_livez,
            "/readyz": self._show_readyz,
            "/status": self._show_status,
        }

    async def answer(self, request: h11.Request, has_body: bool) -> Answer:
        """The page, or a response with an HTTP status and the reason."""
        host = self._hosts.refused(request)
        if host is not None:
            return Answer(421, _MISDIRECTED % shown(host).encode("ascii", "backslashreplace"))
        if request.method not in (b"GET", b"HEAD"):
            return Answer(
                405, b"Only GET and HEAD are served here.\n", more=(("Allow", "GET, HEAD"),)
            )
        if has_body:
            return Answer(400, b"No request here has a body.\n")
        path = _path(request.target)
        page = self._pages.get(path)
        if page is None:
            return Answer(404, f"There is nothing here but {', '.join(self._pages)}.\n".encode())
        async with self._one:
            try:
                if self._facts.controlling is not None:
                    await carried_out(self._facts.controlling.count())
                counts = path in _WITH_COUNTS
                facts = await self._facts.of_all_workers() if counts else self._facts
                return page(request, facts)
            except Exception as error:
                self._facts.server_context.reports.bug(
                    "internal error", error, listener="management", path=path
                )
                return Answer(500, b"This page cannot be made; the log of the server says why.\n")

    def _show_metrics(self, request: h11.Request, facts: Facts) -> Answer:
        self._metrics.read(facts)
        accept = b",".join(value for name, value in request.headers if name == b"accept")
        content_type, body = self._metrics.render(accept.decode("latin-1"))
        return Answer(200, body, content_type)

    def _show_livez(self, request: h11.Request, facts: Facts) -> Answer:
        return _json(200, {"live": True})  # a process that can answer lives

    def _show_readyz(self, request: h11.Request, facts: Facts) -> Answer:
        ready, document = readyz(facts)
        return _json(200 if ready else 503, document)

    def _show_status(self, request: h11.Request, facts: Facts) -> Answer:
        return _json(200, status(facts))


def _path(target: bytes) -> str:
    """The path of a request target, without its query.

    Proxies send the absolute form, which every server must accept (RFC 9112, 3.2.2).
    """
    text = target.decode("ascii", "replace")
    if not text.startswith("/"):
        text = "/" + text.partition("://")[2].partition("/")[2]
    return text.partition("?")[0]


def _json(status_code: int, document: dict[str, Any]) -> Answer:
    return Answer(
        status_code,
        (json.dumps(document, indent=1) + "\n").encode(),
        "application/json; charset=utf-8",
    )
