"""HOST:PORT as users write it, for the commands that talk to a server."""

from __future__ import annotations

from typing import Final

import click

from gateway import address
from gateway.address import Address

DEFAULT_PORT: Final = 9092


def parse_address(text: str) -> Address:
    """``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``; without a port 9092. Raises click.BadParameter."""
    try:
        return address.parse_address(text, DEFAULT_PORT)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
