"""Checks the host that a request to the management port names, as a defence against DNS rebinding.

A web page can make its own name resolve to 127.0.0.1 and then read from a server there, but its
requests carry that name in ``Host``. An IP address in ``Host`` is the page's own origin, which no
resolver can change, so addresses are always accepted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

import h11

#: RFC 3986 3.2.2: a host, in brackets where it is an IPv6 address, and perhaps a port.
_AUTHORITY: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[^\[\]:/@\s]*)(?::[0-9]*)?", re.ASCII
)
_ANY: Final = "*"


class AllowedHosts:
    """The host names that requests may name.

    ``names`` are allowed in addition to localhost and IP addresses; ``.example`` stands for all
    names below it, ``*`` for any host.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        normal = [_normal(name) for name in names]
        self._any = _ANY in normal
        self._names = {"localhost", *(name for name in normal if not name.startswith("."))}
        self._suffixes = (".localhost", *(name for name in normal if name.startswith(".")))

    def refused(self, request: h11.Request) -> str | None:
        """The host that ``request`` names and that is not allowed, as it was written; None if the
        request may be served.

        The authority of an absolute target is checked as well as ``Host`` (RFC 9112 3.2.2). An
        HTTP/1.0 request without either is served: no browser sends one.
        """
        given = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
        target = request.target.decode("latin-1")
        if "://" in target and not target.startswith("/"):
            given.append(target.partition("://")[2].partition("/")[0].partition("?")[0])
        return next((authority for authority in given if not self._allows(authority)), None)

    def _allows(self, authority: str) -> bool:
        match = _AUTHORITY.fullmatch(authority.strip(" \t"))
        if self._any or match is None:
            return self._any
        host = _normal(match["host"])
        return host in self._names or host.endswith(self._suffixes) or _is_address(host)


def _normal(host: str) -> str:
    return host.strip().lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
