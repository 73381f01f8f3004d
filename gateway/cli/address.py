"""HOST:PORT as users write it, for the commands that talk to a server."""

from __future__ import annotations

import re
from typing import Final

import click

DEFAULT_PORT: Final = 9092
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:\[\]\s,/]+))(?::(?P<port>[0-9]{1,5}))?")


def parse_address(text: str) -> tuple[str, int]:
    """``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT`` to (host, port); without a port 9092. Raises click.BadParameter."""
    match = _ADDRESS.fullmatch(text)
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise click.BadParameter(f"{text!r} is not HOST:PORT")
    return match["v6"] or match["host"], port


def address_text(host: str, port: int) -> str:
    """The form that :func:`parse_address` reads."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
