"""Implements ``kwire views``: lists the view topics with the fields of their records, and prints
their schemas. It connects to no server.
"""

from __future__ import annotations

import json
from typing import Any

import click

from gateway.cli.lines import wants_json
from gateway.view_topics import VIEWS, view_topic
from gateway.views.schemas import (
    KEY_FIELDS,
    VALUES,
    connect_schema,
    json_schema,
    spark_schema,
)


@click.command(
    "views",
    short_help="List the view topics, their fields and schemas.",
    epilog="""\b
Examples:
  kwire views
  kwire views --schema partitions > partitions.schema.json
  kwire views --schema partitions --connect --key
  kwire views --schema partitions --spark
  kwire tail -b localhost:9092 --topic __cluster_metadata.partitions""",
)
@click.option(
    "--schema",
    "view",
    metavar="VIEW",
    type=click.Choice(VIEWS),
    help="Print the JSON Schema of the values of this view.",
)
@click.option("--key", is_flag=True, help="With --schema: that of the keys.")
@click.option(
    "--connect", is_flag=True, help="With --schema: Kafka Connect's schema in place of JSON Schema."
)
@click.option(
    "--spark",
    is_flag=True,
    help="With --schema: the columns for from_json of Spark in place of JSON Schema.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="A table, or JSON lines; auto: a table on a terminal, JSON on a pipe.",
)
def command(view: str | None, key: bool, connect: bool, spark: bool, output: str) -> None:
    """List the topics that `kwire serve` derives from the metadata log, with keys and fields.

    A record has the entity's key and its present state as JSON, and null when the entity is gone.
    The topic of changes has each change, with the state before and after it.
    """
    if connect and spark:
        raise click.UsageError("--connect and --spark are two schemas; give one of them")
    if view is not None and spark:
        click.echo(spark_schema(view, key=key))
        return
    if view is not None:
        schema = (connect_schema if connect else json_schema)(view, key=key)
        click.echo(json.dumps(schema, indent=2))
        return
    if key or connect or spark:
        raise click.UsageError("--key, --connect and --spark go with --schema VIEW")
    for one in VIEWS:
        line = describe(one)
        click.echo(json.dumps(line) if wants_json(output) else _text(line))


def describe(view: str) -> dict[str, Any]:
    """Return topic, names of the key's members and of the value's."""
    return {
        "topic": view_topic(view),
        "key": list(KEY_FIELDS[view]),
        "fields": list(VALUES[view].fields),
    }


def _text(line: dict[str, Any]) -> str:
    topic = click.style(line["topic"], bold=True)
    return f"{topic}\n    key     {' '.join(line['key'])}\n    fields  {' '.join(line['fields'])}"
