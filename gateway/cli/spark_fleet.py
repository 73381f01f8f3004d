"""Implements ``kwire spark fleet``: keeps Delta or Iceberg tables of many clusters with Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.lines import json_line, output_option, wants_json
from gateway.cli.server_options import client_security, command_config
from gateway.cli.spark_init import named_servers
from gateway.cli.spark_session import running_session

if TYPE_CHECKING:
    from kwire.spark.fleet import Outcome

_NEEDS: Final = (
    "kwire spark fleet needs PySpark 4.2 for Delta, or 4.1 for Iceberg, and Java 17: pip install"
    " kwire 'pyspark == 4.2.*'"
)


@click.command(
    "fleet",
    help=(
        "Keep one set of tables of many clusters: of each topic, partition, config and so on the"
        " state and the history, from the view topics of kwire serve at HOST:PORT. Spark reads them"
        " and merges them into Delta tables (PySpark 4.2) or Iceberg tables (PySpark 4.1) at WHERE:"
        " a directory or URI, or catalog.database.\n\nIt ends when the tables have what the"
        " clusters have now. A cluster that cannot be read, was wiped, or deleted what was not read"
        " yet stops alone; it is reported, and the exit status is 1."
    ),
    epilog="""\b
Examples:
  kwire spark fleet eu=h1:9092 us=h2:9092 --tables /data/fleet
  kwire spark fleet eu=h1:9092 us=h2:9092 --tables /data/fleet --follow 10
  kwire spark fleet eu=h1:9092 --tables /data/fleet --on-gap resync   after a long stop
  kwire spark fleet eu=h1:9092 --tables s3a://bucket/fleet --conf spark.hadoop.fs.s3a.endpoint=...
  kwire spark init fleet --source eu=h1:9092     a program of the same, to edit and submit""",
)
@click.argument("clusters", metavar="NAME=HOST:PORT...", nargs=-1, required=True)
@click.option("--tables", "where", metavar="WHERE", required=True, help="Where the tables are.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["delta", "iceberg"]),
    help="By default the one that runs with the installed PySpark.",
)
@click.option(
    "--on-gap",
    type=click.Choice(["fail", "resync"]),
    default="fail",
    show_default=True,
    help="A log that no longer has what comes next: stop, or read it anew and mark as deleted what"
    " is gone.",
)
@click.option(
    "--view",
    "views",
    metavar="VIEW",
    multiple=True,
    help="Only this view (kwire views lists them); may be given several times.",
)
@click.option(
    "--follow", metavar="SECONDS", type=click.FloatRange(min=0.1), help="Go on, so often."
)
@click.option(
    "--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark; several times, too."
)
@output_option("A line for each cluster, or JSON; auto: lines on a terminal, JSON on a pipe.")
@command_config
def fleet(
    clusters: Sequence[str],
    where: str,
    format_: Any,
    on_gap: Any,
    views: Sequence[str],
    follow: float | None,
    conf: Sequence[str],
    output: str,
    config: Path | None,
) -> None:
    """Keep the tables."""
    security = _security(config)
    servers = named_servers(tuple(clusters))
    named = {name: {**security, "kafka.bootstrap.servers": at} for name, at in servers.items()}
    settings = dict(_setting(one) for one in conf)
    try:
        metadata.version("pyspark")
        from kwire.spark.fleet import FleetError, keep, session
    except (ImportError, metadata.PackageNotFoundError):
        raise click.ClickException(_NEEDS) from None
    from kwire.jars.maven import MavenError
    from kwire.spark.fleet.views import VIEWS

    _ask_first(named)
    told = _Told(wants_json(output))
    try:
        with running_session(lambda: session(format_, settings, where)) as spark:
            keep(
                spark,
                named,
                _absolute(where),
                format=format_,
                views=tuple(views) or tuple(VIEWS),
                on_gap=on_gap,
                every=follow,
                told=told,
            )
    except (FleetError, MavenError) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise click.Abort from None
    except Exception as error:
        if type(error).__module__.startswith(("pyspark", "py4j")):
            from kwire.spark.fleet.batch import sentence

            raise click.ClickException(f"the tables at {where}: {sentence(error)}") from None
        raise
    if told.failed:
        raise click.exceptions.Exit(1)


class _Told:
    """Prints how it is with each cluster: always after the first round, then where that changes."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._before: dict[str, tuple[str, str]] = {}
        self.failed = False

    def __call__(self, outcomes: Sequence[Outcome]) -> None:
        self.failed = any(one.condition != "OK" for one in outcomes)
        for one in outcomes:
            now = (str(one.condition), one.message)
            if not one.records and self._before.get(one.name) == now:
                continue
            self._before[one.name] = now
            if self._as_json:
                click.echo(
                    json_line(
                        {
                            "name": one.name,
                            "cluster_id": one.cluster_id or None,
                            "condition": now[0],
                            "records": one.records,
                            "message": one.message or None,
                        }
                    )
                )
            elif one.condition == "OK":
                click.echo(f"{one.name}: {one.records} records, cluster {one.cluster_id}")
            else:
                click.echo(f"{one.name}: {now[0]}: {one.message}", err=True)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--conf {text!r} is not NAME=VALUE")
    return name, value


def _absolute(where: str) -> str:
    """A directory by its whole path; a URI and the name of a database as they are."""
    is_database = "/" not in where and "." in where.strip(".")
    is_uri = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", where) is not None
    return where if is_uri or is_database else os.path.abspath(where)


def _security(config: Path | None) -> dict[str, str]:
    """The properties of the file as options of Spark's Kafka source."""
    if config is None:
        return {}
    import javaproperties

    client_security(config)  # says what is wrong with the file
    with config.open(encoding="utf-8") as file:
        return {f"kafka.{name}": value for name, value in javaproperties.load(file).items()}


def _ask_first(clusters: Mapping[str, Mapping[str, str]]) -> None:
    """Raise click.ClickException, before Spark starts, if no cluster can be connected to."""
    from concurrent.futures import ThreadPoolExecutor

    from kwire.spark.fleet.probe import check_reachable
    from kwire.spark.source.server import ServerError

    def why(name: str) -> str:
        try:
            check_reachable(clusters[name])
        except ServerError as error:
            return f"{name}: {error}"
        except ValueError as error:
            raise click.UsageError(f"{name}: {error}") from None
        return ""

    with ThreadPoolExecutor(min(32, len(clusters))) as pool:
        said = list(pool.map(why, clusters))
    if all(said):
        raise click.ClickException("; ".join(said))
