"""Declares the options that name a server, and reads the file of ``--command-config``. It opens no
connection.

The names, and the keys in the file, are those of Kafka's own tools.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gateway.cli.address import parse_addresses

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.security.client_properties import ClientSecurity

_F = TypeVar("_F", bound=Callable[..., Any])

#: ``--command-config FILE``, as the parameter ``config``.
command_config: Final = click.option(
    "--command-config",
    "config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A properties file with Kafka's client keys: security.protocol, ssl.*, sasl.*.",
)


def bootstrap_server(description: str, *, required: bool = False) -> Callable[[_F], _F]:
    """Return the option ``-b HOST:PORT[,...]``, as the parameter ``servers``."""
    return click.option(
        "-b",
        "--bootstrap-server",
        "servers",
        required=required,
        metavar="HOST:PORT[,...]",
        type=parse_addresses,
        help=description,
    )


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect, and how: the first of ``addresses`` that answers is asked."""

    addresses: tuple[Address, ...]
    security: ClientSecurity

    def __str__(self) -> str:
        return ",".join(map(str, self.addresses))


def server_of(addresses: tuple[Address, ...], config: Path | None) -> Server:
    """Return the server that the options name. Raises click.ClickException."""
    return Server(addresses, client_security(config))


def client_security(config: Path | None) -> ClientSecurity:
    """Return the security of ``--command-config``, PLAINTEXT without one. Warnings go to standard
    error. Raises click.ClickException.
    """
    from gateway.security.client_properties import (
        ClientPropertiesError,
        ClientSecurity,
        load_client_properties,
    )

    if config is None:
        return ClientSecurity()
    try:
        security = load_client_properties(config)
    except ClientPropertiesError as error:
        raise click.ClickException("\n".join(error.problems)) from None
    for warning in security.warnings:
        click.echo(warning, err=True)
    return security
