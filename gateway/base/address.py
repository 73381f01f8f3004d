"""Parses and checks addresses of nodes, ``HOST:PORT``. Resolves no name."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:%[A-Za-z0-9_.-]+)?)\]|(?P<host>[^:@\[\]\s,/]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
#: RFC 1035 2.3.4: octets of a label, and of a name.
_LABEL_MAX: Final = 63
_NAME_MAX: Final = 253
#: Characters of a refused text that an error message repeats.
_SHOWN: Final = 80


class Address(NamedTuple):
    """``host`` without brackets, ``port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, default_port: int | None = None, *, least_port: int = 1) -> Address:
    """Parse ``HOST:PORT`` or ``[IPV6]:PORT``. The port is optional if there is a ``default_port``.

    ``least_port`` is 0 for the address of a listener, whose port the system may pick. Raises
    ValueError.
    """
    match = _ADDRESS.fullmatch(text)
    port = match and (match["port"] or default_port)
    if match is None or port is None or not least_port <= int(port) < 65536:
        raise ValueError(f"{shown(text)} is not HOST:PORT")
    host = match["v6"] or check_host(match["host"])
    return Address(host, int(port))


def check_host(host: str) -> str:
    """Return ``host`` if it is a valid name for a resolver, as ASCII or through IDNA. Raises
    ValueError.

    ``getaddrinfo`` raises UnicodeError, which is no OSError, for a name that fails here, so every
    name from outside is checked before it is resolved.
    """
    name = host.removesuffix(".")
    if not host.isprintable() or "\\" in host:
        raise ValueError(f"{shown(host)} is not a host name: it has a character that no name has")
    if any(not label for label in name.split(".")):
        raise ValueError(f"{shown(host)} is not a host name: a part of it is empty")
    try:
        octets = name.encode("ascii") if name.isascii() else name.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"{shown(host)} is not a host name: {error.__cause__ or error}") from None
    if len(octets) > _NAME_MAX or any(len(label) > _LABEL_MAX for label in octets.split(b".")):
        raise ValueError(
            f"{shown(host)} is not a host name: a part has at most {_LABEL_MAX} letters, all of it "
            f"{_NAME_MAX}"
        )
    return host


def shown(text: str) -> str:
    """Quote a refused text for an error message; a long one is cut."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
