"""Implements ``kwire quorum describe``: prints the leader, the voters and the lag of each replica.

Its text output is that of Apache's ``kafka-metadata-quorum``, so that scripts can use either.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from gateway.base.address import Address
from gateway.base.wall_clock import wall_ms
from gateway.cli.address import parse_controllers, parse_seconds
from gateway.cli.lines import json_line, output_option, wants_json
from gateway.cli.server_options import bootstrap_server, client_security, command_config

Addresses = tuple[Address, ...]

_INTERRUPTED: Final = 130


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
@bootstrap_server("Any brokers of the cluster, or `kwire serve`.")
@click.option(
    "--bootstrap-controller", "controllers", metavar="HOST:PORT[,...]", type=parse_controllers,
    help="Any controllers of the quorum.",
)  # fmt: skip
@command_config
@click.option(
    "--timeout",
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    type=parse_seconds,
    help="How long to try to get an answer.",
)
@output_option(
    "As kafka-metadata-quorum prints it, or JSON lines; auto: text on a terminal, JSON on a pipe."
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
            click.echo(json_line(line))
    elif what == "status":
        click.echo(view.status_text(quorum))
    else:
        click.echo(view.replication_text(quorum, now_ms=wall_ms() if human_readable else None))
