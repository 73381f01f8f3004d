"""Implements ``kwire spark init``: writes a program that keeps tables of clusters with Spark."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from gateway.base.address import parse_address, shown


@click.command(
    "init",
    help=(
        "Write DIR/fleet.py, a program that keeps tables of every SOURCE in Delta or Iceberg, as"
        " kwire spark fleet does, to be edited and run with python or spark-submit. A file that is"
        " there is not overwritten."
    ),
    epilog="""\b
Examples:
  kwire spark init fleet --source eu=h1:9092 --source us=h2:9092
  python fleet/fleet.py
  spark-submit --jars $(kwire spark jars),$(kwire spark jars --format delta) fleet/fleet.py""",
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--source",
    "sources",
    metavar="NAME=HOST:PORT",
    multiple=True,
    default=["local=localhost:9092"],
    show_default=True,
    help="A cluster: a name, and where kwire serve serves it; may be given several times.",
)
def init(directory: Path, sources: tuple[str, ...]) -> None:
    """Write the program, and say how to run it."""
    from kwire.spark.fleet.project import write_project

    clusters = named_servers(sources)
    try:
        path = write_project(directory, clusters)
    except FileExistsError as error:
        raise click.ClickException(
            f"{error.filename} is there already; take another directory"
        ) from None
    except OSError as error:
        raise click.ClickException(f"{directory}: cannot be written: {error.strerror}") from None
    click.echo(f"{path}\n\npython {shlex.quote(str(path))}")


def named_servers(sources: tuple[str, ...]) -> dict[str, str]:
    """The address of each of NAME=HOST:PORT[,...]. Raises click.UsageError."""
    found: dict[str, str] = {}
    for one in sources:
        name, equals, address = one.partition("=")
        if not (equals and name):
            raise click.UsageError(f"{shown(one)} is not NAME=HOST:PORT, such as eu=h1:9092")
        if name in found:
            raise click.UsageError(f"{name} is there twice: each cluster has a name of its own")
        try:
            for part in address.split(","):
                parse_address(part)
        except ValueError:
            raise click.UsageError(f"{shown(address)} is not HOST:PORT") from None
        found[name] = address
    return found
