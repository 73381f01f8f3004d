"""Implements ``kwire spark``: prints rows of the jobs over a cluster's past, on one machine."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import click

from gateway.base.address import parse_address, shown
from gateway.cli.lines import json_line, output_option, wants_json
from gateway.cli.server_options import Server, client_security, command_config
from gateway.cli.spark_fleet import fleet
from gateway.cli.spark_init import init
from gateway.cli.spark_jars import jars
from gateway.cli.spark_session import running_session
from gateway.ports.services import PARTITION
from kwire.jars.table_formats import format_at
from kwire.printable import printable
from kwire.protocol import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gateway.security.client_properties import ClientSecurity
    from kwire.spark.table.builder import OnGap

_CLIENT_ID: Final = "kwire-spark"
_CONNECT_S: Final = 2.0
#: One line for each job. The names are those of ``kwire.spark.jobs.JOBS``, which is imported only
#: when a job runs.
JOBS: Final = {
    "isr": "each shrink and expansion of an ISR",
    "flapping": "brokers that leave ISRs and come back, by hour",
    "leaders": "leader moves an hour",
    "configs": "each change of a config, before and after",
    "security": "each change of ACLs, SCRAM credentials, delegation tokens",
    "topics": "made, deleted, how long they lived, short-lived ones",
    "reassignments": "from which replicas to which, and for how long",
    "brokers": "lifelines: fenced, active, shutting down",
    "load": "records and bytes by record type",
    "underreplicated": "spans with too few replicas in sync, the longest first",
    "drift": "configs that differ between the brokers, or clusters",
    "audit": "what was changed by hand: topics, configs, ACLs, users ...",
}
#: The jobs that ask the fleet's tables, too.
_OF_FLEET: Final = ("underreplicated", "drift", "audit")


class JobName(click.Choice[str]):
    """The name of a job."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """``value`` if it is one. Raises click.BadParameter, which has a guess."""
        if value not in self.choices:
            near = difflib.get_close_matches(str(value), self.choices, n=1)
            said = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.choices)}"
            self.fail(f"there is no job {shown(value)}; {said}", param, ctx)
        return str(value)


class WithSubcommands(click.Command):
    """A command whose first argument may be the name of a subcommand; any other is its own."""

    SUBCOMMANDS: ClassVar[dict[str, click.Command]] = {"fleet": fleet, "init": init, "jars": jars}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context of the command that ``args`` ask for."""
        if args and (asked := self.SUBCOMMANDS.get(args[0])):
            return asked.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


@click.command(
    "spark",
    cls=WithSubcommands,
    short_help="Ask the past of a cluster: ISR changes, leader moves, config drift ...",
    help=(
        "Run JOB over SOURCE: a directory with a copy of a metadata log, a server's HOST:PORT, or a"
        " directory of tables that kwire.spark.tables or --tables wrote; underreplicated, drift and"
        " audit ask those of kwire spark fleet, too. PySpark does the work, in"
        " this process (pip install 'kwire[spark]'). kwire spark fleet keeps Delta or Iceberg"
        " tables of many clusters, kwire spark init DIR writes a program of that, kwire spark jars"
        " prints the jars of Spark's Kafka source; each has a --help.\n\n\b\nJobs:\n"
    )
    + "\n".join(f"  {name:<16} {what}" for name, what in JOBS.items()),
    epilog="""\b
Examples:
  kwire spark topics /var/lib/kafka/metadata
  kwire spark leaders localhost:9092 --tables /data/metadata     keep and later update the tables
  kwire spark configs /data/metadata | jq 'select(.before == "(redacted)")'
  kwire spark brokers /data/metadata --svg lifelines.svg
  kwire spark leaders h1:9094 --command-config client.properties""",
)
@click.argument("job", metavar="JOB", type=JobName(list(JOBS)))
@click.argument("sources", metavar="SOURCE", nargs=-1, required=True)
@command_config
@click.option(
    "--tables",
    "path",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Keep the tables here; else they go at the end.",
)
@click.option(
    "--on-gap",
    type=click.Choice(["fail", "resync"]),
    default="fail",
    show_default=True,
    help="If the log does not reach back to the end of --tables: fail, or go on from its snapshot,"
    " which deletes what was deleted meanwhile.",
)
@output_option("A table for people, or JSON lines; auto: for people on a terminal, JSON on a pipe.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, writable=True),
    help="Draw the result into this file too.",
)
def command(
    job: str,
    sources: Sequence[str],
    config: Path | None,
    path: str | None,
    on_gap: OnGap,
    output: str,
    svg: str | None,
) -> None:
    """Print the rows of a job."""
    if len(sources) > 1:
        raise click.UsageError("JOB asks one log: several clusters are kept by kwire spark fleet")
    source, security = sources[0], client_security(config)
    fleets = format_at(source)
    if fleets and job not in _OF_FLEET:
        raise click.UsageError(
            f"{source} has the tables of many clusters, which {', '.join(_OF_FLEET)} ask; {job}"
            " asks one log, or its tables"
        )
    _ask_first(source, path, security)
    with _session(fleets) as spark, _tables(spark, source, security, path, on_gap) as tables:
        from kwire.spark.jobs import JOBS as QUERIES

        rows = [_plain(row.asDict(recursive=True)) for row in QUERIES[job](spark, tables).collect()]
    if svg is not None:
        from kwire.spark.jobs_svg import picture

        try:
            Path(svg).write_text(picture(job, rows), encoding="utf-8")
        except OSError as error:
            raise click.ClickException(
                f"--svg {svg}: cannot be written: {error.strerror}"
            ) from None
    if wants_json(output):
        for row in rows:
            click.echo(json_line({name: _json(value) for name, value in row.items()}))
    else:
        _print_table(rows)


def _session(fleets: str | None) -> contextlib.AbstractContextManager[SparkSession]:
    """Return a Spark session in this process, with the jars of ``fleets``, the format of the
    fleet's tables, if that is given. Raises click.ClickException without PySpark.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise click.ClickException(
            "kwire spark needs PySpark 4.2 or 4.3 and Java 17: pip install 'kwire[spark]'"
        ) from None
    from kwire.spark.local import SETTINGS

    def make() -> SparkSession:
        if fleets:
            return _session_of_fleet(fleets)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[*]").appName("kwire spark")
        return builder.config(map=SETTINGS).getOrCreate()

    return running_session(make)


def _session_of_fleet(format: Any) -> SparkSession:
    """Raises click.ClickException where no jars for the format are to be had."""
    from kwire.jars.maven import MavenError
    from kwire.spark.fleet import session

    try:
        return session(format)
    except MavenError as error:
        raise click.ClickException(str(error)) from None


@contextlib.contextmanager
def _tables(
    spark: SparkSession,
    source: str,
    security: ClientSecurity,
    path: str | None,
    on_gap: OnGap,
) -> Iterator[str]:
    """Yield the path of tables with the data of ``source``."""
    if _has_tables(source):
        yield os.path.abspath(source)
        return
    with tempfile.TemporaryDirectory(prefix="kwire-spark-") as scratch:
        where = path or f"{scratch}/tables"
        _build(spark, source, client_options(security, Path(scratch)), where, on_gap)
        yield where


def _ask_first(source: str, path: str | None, security: ClientSecurity) -> None:
    """Raise click.ClickException, with the cause, for what cannot be: in a second, before Spark
    starts.
    """
    for where in (source, path):
        if where is not None and (os.path.isdir(where) or where is path):
            _check_place(where)
    if os.path.isdir(source):
        if path is not None and _has_tables(source):
            raise click.UsageError(
                f"{source} already has tables: use --tables with a log or a server"
            )
        return
    try:
        address = parse_address(source)
    except ValueError:
        raise click.UsageError(f"{shown(source)} is neither a directory nor HOST:PORT") from None
    from gateway.cli.topic_reader import with_reader

    server = Server((address,), security)
    with_reader(
        server,
        CLUSTER_METADATA_TOPIC,
        _CLIENT_ID,
        lambda reader: reader.bounds(PARTITION),
        _CONNECT_S,
    )


def _check_place(path: str) -> None:
    from kwire.spark.table.places import directory_of

    try:
        directory_of(path)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _has_tables(source: str) -> bool:
    of_one_log = os.path.isfile(os.path.join(source, "manifest.json"))
    return of_one_log or format_at(source) is not None


def _build(
    spark: SparkSession, source: str, client: Mapping[str, str], where: str, on_gap: OnGap
) -> None:
    """Build tables at ``where``. Raises click.ClickException."""
    from kwire.spark.source.server import ServerError
    from kwire.spark.table.build import DataLossError, TablesError, tables

    try:
        tables(spark, source, where, client=client, on_gap=on_gap)
    except (OSError, ValueError, TablesError, DataLossError, ServerError) as error:
        raise click.ClickException(str(error)) from None


def client_options(security: ClientSecurity, directory: Path) -> dict[str, str]:
    """Return the options of ``format("kwire")`` for a connection with this security.

    Its certificates and its key go to files in ``directory``, which others cannot read, as PEM:
    the only form that kafka-python reads. Raises click.ClickException for a delegation token.
    """
    options = {"security_protocol": security.protocol}
    tls, sasl = security.tls, security.sasl
    if tls is not None:
        options["ssl_check_hostname"] = str(tls.check_host_name).lower()
        if tls.trusted is not None:
            options["ssl_cafile"] = _file(directory / "trusted.pem", tls.trusted)
        if tls.own is not None:
            own = _file(directory / "own.pem", tls.own.key.reveal() + tls.own.chain)
            options |= {"ssl_certfile": own, "ssl_keyfile": own}
    if sasl is not None:
        if sasl.is_token:
            raise click.ClickException(
                "kwire spark reads with kafka-python, which has no delegation tokens: use a SCRAM"
                " user"
            )
        options |= {
            "sasl_mechanism": sasl.mechanism,
            "sasl_plain_username": sasl.username,
            "sasl_plain_password": sasl.password.reveal(),
        }
    return {f"kafka.{name}": value for name, value in options.items()}


def _file(path: Path, text: str) -> str:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return str(path)


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Format a value. Spark returns times in this machine's zone, without naming it."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def _print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    if not rows:
        click.echo("nothing")
        return
    table = Table(box=None, header_style="bold")
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            *("" if value is None else printable(str(_json(value))) for value in row.values())
        )
    Console(markup=False, highlight=False).print(table)
