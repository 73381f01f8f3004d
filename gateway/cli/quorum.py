"""Implements ``kwire quorum describe``: prints the leader, the voters and the lag of each replica.

Its text output is that of Apache's ``kafka-metadata-quorum``, so that scripts can use either.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gateway.address import Address
from gateway.cli.address import parse_address, parse_seconds
from gateway.cli.lines import wants_json
from gateway.wall_clock import wall_ms

if TYPE_CHECKING:
    from gateway.security.client_properties import ClientSecurity

    Addresses = tuple[Address, ...]

_INTERRUPTED: Final = 130


def parse_brokers(text: str) -> Addresses:
    """Parse ``HOST:PORT,...`` to (host, port) pairs. Raises click.BadParameter."""
    return tuple(parse_address(one.strip()) for one in text.split(","))


def parse_controllers(text: str) -> Addresses:
    """Parse the same for controllers, which have no default port. Raises click.BadParameter."""
    addresses = parse_brokers(text)
    for one in text.split(","):
        if not one.rpartition(":")[2].strip().isdigit():
            raise click.BadParameter(f"{one.strip()!r} has no port: write HOST:PORT")
    return addresses


@click.group(
    "quorum", short_help="Show the metadata quorum.", context_settings={"max_content_width": 120}
)
def command() -> None:
    """Describe the quorum of controllers that keeps the metadata log."""


@command.command(
    "describe",
    short_help="Show leader, voters and observers.",
    epilog="""\b
Examples:
  kwire quorum describe --status -b localhost:9092
  kwire quorum describe --replication --human-readable --bootstrap-controller c1:9093,c2:9093
  kwire quorum describe --replication -b localhost:9092 | jq 'select(.lag > 100).nodeId'
  kwire quorum describe --status --bootstrap-controller c1:9093 --command-config client.properties

Exit status: 1 where the quorum could not be asked, or did not answer in time.""",
)
@click.option(
    "--status",
    "what",
    flag_value="status",
    help="Leader, epoch, high watermark, voters and observers.",
)
@click.option(
    "--replication",
    "what",
    flag_value="replication",
    help="Log end offset and lag of every voter and observer.",
)
@click.option(
    "--human-readable",
    is_flag=True,
    help="With --replication: ages in place of timestamps.",
)
@click.option(
    "-b", "--bootstrap-server", "servers", metavar="HOST:PORT[,...]", type=parse_brokers,
    help="Any brokers of the cluster, or `kwire serve`.",
)  # fmt: skip
@click.option(
    "--bootstrap-controller", "controllers", metavar="HOST:PORT[,...]", type=parse_controllers,
    help="Any controllers of the quorum.",
)  # fmt: skip
@click.option(
    "--command-config",
    "config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A properties file with Kafka's client keys: security.protocol, ssl.*, sasl.*.",
)
@click.option(
    "--timeout",
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    type=parse_seconds,
    help="How long to try to get an answer.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help=(
        "As kafka-metadata-quorum prints it, or JSON lines; auto: text on a terminal, JSON on a"
        " pipe."
    ),
)
def describe(
    what: str | None,
    human_readable: bool,
    servers: Addresses | None,
    controllers: Addresses | None,
    config: Path | None,
    timeout: float,
    output: str,
) -> None:
    """Print the leader's description of the metadata quorum and its replicas.

    Any broker or controller of the cluster can be asked: the command finds the leader. As JSON,
    --status is one object, --replication one for each replica; their names are those of the text's
    columns.
    """
    from gateway.cli import quorum_view as view
    from gateway.cli.quorum_ask import ask

    if what is None or bool(servers) == bool(controllers):
        raise click.UsageError(
            "give --status or --replication, and one of --bootstrap-server and"
            " --bootstrap-controller"
        )
    try:
        quorum = ask(
            servers or controllers or (), bool(controllers), client_security(config), timeout
        )
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    if wants_json(output):
        for line in [view.status(quorum)] if what == "status" else view.replication(quorum):
            click.echo(json.dumps(line, ensure_ascii=False))
    elif what == "status":
        click.echo(view.status_text(quorum))
    else:
        click.echo(view.replication_text(quorum, now_ms=wall_ms() if human_readable else None))


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
