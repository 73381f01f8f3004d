"""Implements ``kwire views``: lists the view topics with the fields of their records, and prints
their schemas. With a server it lists those that the server has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.lines import output_option, wants_json
from gateway.cli.server_options import bootstrap_server, command_config, server_of
from gateway.ports.services import PARTITION
from gateway.ports.view_topics import CHANGES, VIEWS, view_topic
from gateway.views.schemas import (
    KEY_FIELDS,
    VALUES,
    connect_schema,
    headers_schema,
    json_schema,
    spark_schema,
    spark_schemas,
)

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.cli.server_options import Server

_CLIENT_ID: Final = "kwire-views"
#: Content of the records of each view.
ABOUT: Final = {
    CHANGES: "every change of every entity, with its state before and after",
    "topics": "topics by name: number of partitions, replication factor and configs",
    "partitions": "partitions: replicas, ISR, leader and epochs",
    "configs": "configs that are set for topics, brokers, groups and client metrics",
    "acls": "access control lists: who may do what",
    "brokers": "registered brokers: listeners, rack, fenced or not",
    "controllers": "registered controllers: listeners and features",
    "quotas": "client quotas",
    "features": "finalized levels of features, such as metadata.version",
    "users": "users with SCRAM credentials, whose keys are redacted",
    "tokens": "delegation tokens: owner, renewers and times",
}


@click.command(
    "views",
    short_help="List the view topics, their fields and schemas.",
    epilog="""\b
Examples:
  kwire views
  kwire views --schema partitions > partitions.schema.json
  kwire views --schema partitions --connect --key
  kwire views --schema partitions --spark
  kwire views --schema partitions --headers
  kwire views --spark
  kwire views -b localhost:9092
  kwire tail -b localhost:9092 --topic __cluster_metadata.partitions""",
)
@bootstrap_server("List the views that this server has, with their first and last offsets.")
@command_config
@click.option(
    "--schema",
    "view",
    metavar="VIEW",
    type=click.Choice(VIEWS),
    help="Print the JSON Schema of the values of this view.",
)
@click.option("--key", is_flag=True, help="With --schema: that of the keys.")
@click.option("--headers", is_flag=True, help="With --schema: JSON Schema of the headers.")
@click.option(
    "--connect", is_flag=True, help="With --schema: Kafka Connect's schema in place of JSON Schema."
)
@click.option(
    "--spark",
    is_flag=True,
    help="With --schema: the columns for from_json of Spark in place of JSON Schema. Without: the"
    " topic, the names of the keys, the columns of key and value of all views, as JSON.",
)
@output_option("A table, or JSON lines; auto: a table on a terminal, JSON on a pipe.")
def command(
    servers: tuple[Address, ...] | None,
    config: Path | None,
    view: str | None,
    key: bool,
    headers: bool,
    connect: bool,
    spark: bool,
    output: str,
) -> None:
    """List the topics that `kwire serve` derives from the metadata log, with keys and fields.

    A record has the entity's key and its present state as JSON, and null when the entity is gone.
    The topic of changes has each change, with the state before and after it. Headers have the id of
    the cluster.
    """
    if connect + spark + headers > 1 or (key and headers):
        raise click.UsageError("--connect, --spark and --headers are schemas; give one of them")
    if view is not None:
        click.echo(_schema(view, key=key, headers=headers, connect=connect, spark=spark))
        return
    if key or headers or connect or (spark and servers is not None):
        raise click.UsageError("--key, --headers, --connect and --spark go with --schema VIEW")
    if spark:
        click.echo(json.dumps(spark_schemas(), indent=2))
        return
    bounds = {} if servers is None else served(server_of(servers, config))
    for one in VIEWS if servers is None else bounds:
        line = describe(one)
        if one in bounds:
            line["first"], line["end"] = bounds[one]
        click.echo(json.dumps(line) if wants_json(output) else _text(line))


def _schema(view: str, *, key: bool, headers: bool, connect: bool, spark: bool) -> str:
    if spark:
        return spark_schema(view, key=key)
    if headers:
        return json.dumps(headers_schema(view), indent=2)
    return json.dumps((connect_schema if connect else json_schema)(view, key=key), indent=2)


def served(server: Server) -> dict[str, tuple[int, int]]:
    """Return the views that a server has, each with the bounds of its topic. Raises
    click.ClickException.
    """
    import trio

    from gateway.cli.server_nodes import Nodes
    from gateway.cli.topic_reader import TopicReader

    async def run() -> dict[str, tuple[int, int]]:
        nodes = Nodes(server, _CLIENT_ID)
        found = {}
        try:
            for view in VIEWS:
                reader = TopicReader(nodes, view_topic(view))
                await reader.open()
                found[view] = await reader.bounds(PARTITION)
        finally:
            await nodes.aclose()
        return found

    return trio.run(run)


def describe(view: str) -> dict[str, Any]:
    """Return topic, a sentence, names of the key's members and of the value's."""
    return {
        "topic": view_topic(view),
        "about": ABOUT[view],
        "key": list(KEY_FIELDS[view]),
        "fields": list(VALUES[view].fields),
    }


def _text(line: dict[str, Any]) -> str:
    topic = click.style(line["topic"], bold=True)
    offsets = f"\n    offsets {line['first']} to {line['end']}" if "end" in line else ""
    return (
        f"{topic}: {line['about']}\n    key     {' '.join(line['key'])}\n"
        f"    fields  {' '.join(line['fields'])}{offsets}"
    )
