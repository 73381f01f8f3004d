"""Serves ``/metrics``, ``/livez``, ``/readyz``, ``/status``, ``/views`` and the page over HTTP/1.1,
on a port of its own.

No request changes anything. At most one response with counts is made in a turn of the event loop,
so that many scrapers do not delay Kafka's clients. The content is made by ``metrics``, ``status``
and ``page_api``; ``access`` decides which requests are answered.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import h11
import trio

from gateway.base.address import Address, parse_address, shown
from gateway.config.config import ConfigError
from gateway.server.clients.bound_listener import BoundListener
from gateway.server.management.access import LOGIN_PATH, Access
from gateway.server.management.http_connections import (
    CONNECTIONS_MAX,
    Answer,
    HttpConnections,
    RequestBody,
)
from gateway.server.management.http_hosts import AllowedHosts
from gateway.server.management.metrics import Metrics
from gateway.server.management.status import readyz, status
from gateway.views.schemas import published_schemas

if TYPE_CHECKING:
    from gateway.server.management.facts import Facts
    from gateway.server.management.page_api import PageApi

#: Paths that are answered without the token, for probes: whether, and not why not.
_OPEN: Final = ("/livez", "/readyz")
_NEEDS_TOKEN: Final = b"The page is served on loopback, or with a token: set management.token.\n"
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
    token: str | None = None,
    page: PageApi | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the listening socket ``sock`` until cancelled, then close it.

    ``allowed_hosts``: host names that a request may name (``AllowedHosts``). ``token``: the token
    that requests must have, None for none.
    """
    reports = facts.server_context.reports
    host, port = sock.getsockname()[:2]
    access = Access(AllowedHosts(allowed_hosts), token, port)
    is_private = token is not None or ipaddress.ip_address(host).is_loopback
    async with (
        trio.open_nursery() as nursery,
        trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener,
    ):
        pages = Pages(facts, access, page, shows_page=is_private)
        http_connections = HttpConnections(nursery, pages.answer, reports)
        if page is not None:
            nursery.start_soon(page.run)
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

    def __init__(
        self, facts: Facts, access: Access, page: PageApi | None, *, shows_page: bool
    ) -> None:
        self._facts = facts
        self._access = access
        self._page = page
        self._shows_page = shows_page
        self._metrics = Metrics(facts)
        self._one = trio.Lock()  # held while a page is made
        self._pages: dict[str, Callable[[h11.Request, Facts], Answer]] = {
            "/metrics": self._show_metrics,
            "/livez": self._show_livez,
            "/readyz": self._show_readyz,
            "/status": self._show_status,
            "/views": self._show_views,
        }

    async def answer(self, request: h11.Request, body: RequestBody) -> Answer:
        """The page, or a response with an HTTP status and the reason."""
        refusal = self._access.refusal(request)
        if refusal is not None:
            return refusal
        path, query = _path_and_query(request.target)
        methods = self._methods(path)
        if request.method not in methods:
            allowed = b", ".join(methods)
            says = b"Only %s is served here.\n" % allowed.replace(b",", b" and")
            return Answer(405, says, more=(("Allow", allowed.decode()),))
        if body.follows and b"POST" not in methods:
            return Answer(400, b"No request here has a body.\n")
        if path == LOGIN_PATH:
            return await self._access.log_in(request, body)
        if path not in _OPEN and not self._access.is_authenticated(request):
            return self._access.unauthorized(request)
        try:
            if self._page is not None and self._page.serves(path):
                if not self._shows_page:
                    return Answer(403, _NEEDS_TOKEN)
                return await self._page.answer(request, path, query, body)
            return await self._counted(request, path)
        except Exception as error:
            self._facts.server_context.reports.bug(
                "internal error", error, listener="management", path=path
            )
            return Answer(500, b"This page cannot be made; the log of the server says why.\n")

    def _methods(self, path: str) -> Sequence[bytes]:
        if path == LOGIN_PATH:
            return (b"POST",)
        if self._page is not None and self._page.serves(path):
            return self._page.methods(path)
        return (b"GET", b"HEAD")

    async def _counted(self, request: h11.Request, path: str) -> Answer:
        page = self._pages.get(path)
        if page is None:
            known = [*(["/"] if self._page is not None else []), *self._pages]
            return Answer(404, f"There is nothing here but {', '.join(known)}.\n".encode())
        async with self._one:
            counts = path in _WITH_COUNTS
            facts = await self._facts.of_all_workers() if counts else self._facts
            return page(request, facts)

    def _show_metrics(self, request: h11.Request, facts: Facts) -> Answer:
        self._metrics.read(facts)
        accept = b",".join(value for name, value in request.headers if name == b"accept")
        content_type, body = self._metrics.render(accept.decode("latin-1"))
        return Answer(200, body, content_type)

    def _show_livez(self, request: h11.Request, facts: Facts) -> Answer:
        return _json(200, {"live": True})  # a process that can answer lives

    def _show_readyz(self, request: h11.Request, facts: Facts) -> Answer:
        ready, document = readyz(facts)
        if not self._access.is_authenticated(request):
            document = {"ready": ready}
        return _json(200 if ready else 503, document)

    def _show_status(self, request: h11.Request, facts: Facts) -> Answer:
        return _json(200, status(facts))

    def _show_views(self, request: h11.Request, facts: Facts) -> Answer:
        return _json(200, published_schemas())


def _path_and_query(target: bytes) -> tuple[str, str]:
    """The path and the query of a request target.

    Proxies send the absolute form, which every server must accept (RFC 9112, 3.2.2).
    """
    text = target.decode("ascii", "replace")
    if not text.startswith("/"):
        text = "/" + text.partition("://")[2].partition("/")[2]
    path, _, query = text.partition("?")
    return path, query


def _json(status_code: int, document: dict[str, Any]) -> Answer:
    # A line for each member, and no ``indent``: with it json makes functions that refer to each
    # other for each document, which only a garbage collection frees.
    members = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in document.items())
    text = "{\n " + ",\n ".join(members) + "\n}\n"
    return Answer(status_code, text.encode(), "application/json; charset=utf-8")
