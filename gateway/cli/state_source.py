"""Parses the source and the end of a state. It reads nothing itself, and is cheap to import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.server_options import Server
from kwire.metadata_log import at as ends
from kwire.metadata_log.at import At

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.security.client_properties import ClientSecurity
    from kwire.metadata_log.fold import State


def parse_at(text: str) -> At:
    """Parse the end of a state, as :func:`kwire.metadata_log.at.parse_at` does. Raises
    click.BadParameter.
    """
    try:
        return ends.parse_at(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_source(text: str) -> tuple[Path | Address, At]:
    """Parse ``PATH`` or ``HOST:PORT``, either with ``@OFFSET`` or ``@TIME``; an existing file is a
    path. Raises click.BadParameter.
    """
    place, _, at = text.rpartition("@")
    if not place or os.path.exists(text):
        place, at = text, ""
    return _place(place), parse_at(at) if at else At()


def _place(text: str) -> Path | Address:
    from gateway.cli.address import parse_address

    if os.path.exists(text):
        return Path(text)
    if ":" in text and "/" not in text:
        return parse_address(text)
    raise click.BadParameter(f"{text} does not exist, and is not HOST:PORT either")


def load(place: Path | Address, at: At, security: ClientSecurity) -> State:
    """Return the state of one path or server; ``security`` is that of the connection to a server.

    Raises click.ClickException.
    """
    from gateway.cli.state_files import load_files
    from gateway.cli.state_server import load_server

    if isinstance(place, Path):
        return load_files([place], at)
    return load_server(Server((place,), security), at)
