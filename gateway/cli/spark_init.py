"""Implements ``kwire spark init``: writes a project of Spark Declarative Pipelines."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from gateway.base.address import parse_address, shown


@click.command(
    "init",
    help=(
        "Write a project of Spark Declarative Pipelines into DIR, with the tables of every SOURCE:"
        " a directory with a copy of a metadata log, or a server's HOST:PORT. No file is ever"
        " overwritten. spark-pipelines, of PySpark, runs it (pip install"
        " 'kwire[spark,pipelines]')."
    ),
    epilog="""\b
Examples:
  kwire spark init clusters --source localhost:9092
  kwire spark init clusters --source /var/lib/kafka/metadata --source b.example.com:9092
  cd clusters && spark-pipelines run --conf spark.sql.catalogImplementation=hive""",
)
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--source",
    "sources",
    metavar="SOURCE",
    multiple=True,
    default=["localhost:9092"],
    show_default=True,
    help="Where a cluster's log is; may be given several times.",
)
def init(directory: Path, sources: tuple[str, ...]) -> None:
    """Write the project, and say how to run it."""
    from kwire.spark.pipelines import RUN, write_project

    found = list(dict.fromkeys(map(_checked, sources)))
    try:
        for path in write_project(directory, found):
            click.echo(path)
    except FileExistsError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"\ncd {shlex.quote(str(directory))} && {RUN}")


def _checked(source: str) -> str:
    """A directory by its whole path, or an address as it is. Raises click.UsageError."""
    if os.path.isdir(source):
        return os.path.abspath(source)
    try:
        for one in source.split(","):
            parse_address(one)
    except ValueError:
        raise click.UsageError(f"{shown(source)} is neither a directory nor HOST:PORT") from None
    return source
