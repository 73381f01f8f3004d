"""Implements ``kwire apis``: compares the APIs of a server with those of the codec and of ``kwire
serve``.

It connects as every command does, which sends ApiVersions, and sends no other request.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from gateway.cli.address import parse_controllers, parse_seconds
from gateway.cli.server_options import Server, bootstrap_server, command_config, server_of
from kwire.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.base.address import Address
    from gateway.server.node_client.connection import Upstream

_CLIENT_ID: Final = "kwire-apis"


@click.command(
    "apis",
    short_help="Compare a server's API versions with kwire's.",
    epilog="""\b
Examples:
  kwire apis -b localhost:9092
  kwire apis -b localhost:9092 | jq 'select(.usable == null)'""",
)
@bootstrap_server("The server to ask: a broker, or `kwire serve`.")
@click.option(
    "--bootstrap-controller",
    "controllers",
    metavar="HOST:PORT[,...]",
    type=parse_controllers,
    help="The same for a controller.",
)
@command_config
@click.option(
    "--timeout",
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    type=parse_seconds,
    help="How long to wait for the server.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "table", "json"]),
    default="auto",
    show_default=True,
    help="A table, or a JSON line for each API; auto: a table on a terminal, lines on a pipe.",
)
def command(
    servers: tuple[Address, ...] | None,
    controllers: tuple[Address, ...] | None,
    config: Path | None,
    timeout: float,
    output: str,
) -> None:
    """Ask a Kafka server for its APIs, and print the versions of each: the server's, the codec's,
    those of `kwire serve`, and the newest that client and server would use together.
    """
    if bool(servers) == bool(controllers):
        raise click.UsageError("give one of --bootstrap-server and --bootstrap-controller")
    answered = ask(server_of(servers or controllers or (), config), timeout)
    found = list(rows(answered.versions))
    if output == "table" or (output == "auto" and sys.stdout.isatty()):
        _print_table(found, answered)
    else:
        for row in found:
            click.echo(json.dumps(row))


def ask(server: Server, timeout_s: float) -> Upstream:
    """Return a connection to the server, which is closed: it knows the versions that the server
    offers. Raises click.ClickException.
    """
    import trio

    from gateway.cli.server_nodes import Nodes

    async def run() -> Upstream:
        nodes = Nodes(server, _CLIENT_ID, timeout_s)
        try:
            return await nodes.first()
        finally:
            await nodes.aclose()

    return trio.run(run)


def rows(offered: Mapping[int, range]) -> Iterator[dict[str, Any]]:
    """Return one mapping for each API of the server, the codec or ``kwire serve``, in the order of
    the keys.

    Versions are [oldest, newest], None without any; ``usable`` is the newest that codec and server
    share.
    """
    from gateway.handlers.table import handlers
    from kwire.messages import BY_KEY

    server_versions = {key: [one.start, one.stop - 1] for key, one in offered.items()}
    codec = {
        number: _codec_versions(name)
        for (kind, number), name in BY_KEY.items()
        if kind == "request"
    }
    serve = {
        key: [handler.versions[0], handler.versions[-1]] for key, handler in handlers().items()
    }
    encoded = {key for key, versions in codec.items() if versions}
    for key in sorted({*server_versions, *encoded, *serve}):
        name = BY_KEY.get(("request", key), f"{key}").removesuffix("Request")
        server, known = server_versions.get(key), codec.get(key)
        usable = min(server[1], known[1]) if server and known else None
        if usable is not None and server and known and usable < max(server[0], known[0]):
            usable = None
        yield {
            "key": key,
            "api": name,
            "server": server,
            "codec": known,
            "serve": serve.get(key),
            "usable": usable,
        }


def _codec_versions(name: str) -> list[int] | None:
    import kwire

    versions = kwire.message_type(name).VERSIONS
    return [versions[0], versions[-1]] if len(versions) else None


def _print_table(found: list[dict[str, Any]], server: Upstream) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"APIs of {server.address}",
        title_justify="left",
        header_style="bold",
        row_styles=("", "dim"),
    )
    for heading, justify in (
        ("key", "right"),
        ("API", "left"),
        ("server", "right"),
        ("codec", "right"),
        ("serve", "right"),
    ):
        table.add_column(heading, justify=cast(Any, justify))
    table.add_column("usable", justify="right", style="green")
    for row in found:
        usable = "" if row["usable"] is None else str(row["usable"])
        table.add_row(
            str(row["key"]),
            row["api"],
            *(_span(row[who]) for who in ("server", "codec", "serve")),
            usable,
        )
    Console().print(table)
    for name, levels in server.supported_features.items():
        finalized = server.finalized_features.get(name, 0)
        click.echo(f"{printable(name)}: {_levels(levels)}, finalized {finalized}")


def _levels(levels: range) -> str:
    return f"{levels.start}-{levels.stop - 1}"


def _span(versions: list[int] | None) -> str:
    if versions is None:
        return "-"
    return str(versions[0]) if versions[0] == versions[1] else f"{versions[0]}-{versions[1]}"
