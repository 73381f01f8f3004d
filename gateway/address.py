"""Where a node listens, and how that is written. The lowest stone of the house: everybody may use it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:%[\w.-]+)?)\]|(?P<host>[^:@\[\]\s,/]+))(?::(?P<port>[0-9]{1,5}))?")


class Address(NamedTuple):
    """``host`` without brackets, ``port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, default_port: int | None = None, *, least_port: int = 1) -> Address:
    """``HOST:PORT`` or ``[IPV6]:PORT``; also without a port where there is a ``default_port``. Raises ValueError.

    ``least_port`` is 0 for who listens: the system picks one then.
    """
    match = _ADDRESS.fullmatch(text)
    port = match and (match["port"] or default_port)
    if match is None or port is None or not least_port <= int(port) < 65536:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return Address(match["v6"] or match["host"], int(port))
