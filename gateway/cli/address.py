"""Parses HOST:PORT and timeouts for the commands that talk to a server."""

from __future__ import annotations

from typing import Final

import click

from gateway.base import address
from gateway.base.address import Address, shown

DEFAULT_PORT: Final = 9092
#: A day: sockets refuse timeouts of centuries.
_SECONDS_MAX: Final = 86_400.0


def parse_address(text: str) -> Address:
    """Parse ``HOST``, ``HOST:PORT`` or ``[IPV6]:PORT``; the default port is 9092. Raises
    click.BadParameter.
    """
    try:
        return address.parse_address(text, DEFAULT_PORT)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse ``HOST:PORT,...``. Raises click.BadParameter."""
    return tuple(parse_address(one.strip()) for one in text.split(","))


def parse_controllers(text: str) -> tuple[Address, ...]:
    """Parse the same for controllers, which have no default port. Raises click.BadParameter."""
    addresses = parse_addresses(text)
    for one in text.split(","):
        if not one.rpartition(":")[2].strip().isdigit():
            raise click.BadParameter(f"{one.strip()!r} has no port: write HOST:PORT")
    return addresses


def parse_seconds(text: str | float) -> float:
    """Parse a timeout in s, above 0 and at most a day. Raises click.BadParameter."""
    try:
        seconds = float(text)
    except ValueError:
        raise click.BadParameter(f"{shown(str(text))} is not a number of seconds") from None
    if not 0 < seconds <= _SECONDS_MAX:  # NaN is neither
        raise click.BadParameter(
            f"{seconds:g} is not above 0 and at most {_SECONDS_MAX:.0f} seconds"
        )
    return seconds
