"""Implements ``kwire tail``: follows the metadata topic of any server and prints its records
decoded, without secrets.

It reads as any client of the topic would. Control records are not printed: ``kwire decode`` prints
them from files.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.lines import json_line, output_option, text_line, wants_json
from gateway.cli.server_options import bootstrap_server, command_config, server_of
from gateway.ports.services import AUDIT_TOPIC, PARTITION
from gateway.ports.view_topics import VIEW_TOPICS
from kwire.protocol import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.cli.server_options import Server
    from gateway.cli.topic_reader import Fetched, TopicReader

_CLIENT_ID: Final = "kwire-tail"
_INTERRUPTED: Final = 130
#: A controller writes one every half second, to move the end of the log.
_NO_OP: Final = "NO_OP_RECORD"


def parse_start(text: str) -> str | int:
    """Parse ``beginning``, ``end``, or an offset as a number. Raises click.BadParameter."""
    if text in ("beginning", "end"):
        return text
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise click.BadParameter(f"{text!r} is neither beginning, end nor an offset")
    return int(text)


@click.command(
    "tail",
    short_help="Follow the metadata topic of a server, decoded.",
    epilog="""\b
Examples:
  kwire tail -b localhost:9092
  kwire tail -b localhost:9092 --until-end | jq -c 'select(.type == "TOPIC_RECORD").data.name'
  kwire tail -b localhost:9092 --from end
  kwire tail -b localhost:9092 --topic __cluster_metadata_audit -o text        who changed what
  kwire tail -b localhost:9092 --topic __cluster_metadata.changes -o text      what changed""",
)
@bootstrap_server("The server to read.", required=True)
@command_config
@click.option(
    "--topic",
    default=CLUSTER_METADATA_TOPIC,
    show_default=True,
    help="The topic: metadata records, the audit topic, or a view topic.",
)
@click.option(
    "--from",
    "start",
    default="beginning",
    show_default=True,
    metavar="beginning|end|OFFSET",
    type=parse_start,
    help="Where to begin.",
)
@click.option(
    "--until-end",
    is_flag=True,
    help="Stop at the present end of the topic, instead of following it.",
)
@click.option(
    "--no-ops",
    is_flag=True,
    help="Print NO_OP_RECORDs in text, too; JSON has them always.",
)
@output_option("Lines for people, or JSON lines; auto: for people on a terminal, JSON on a pipe.")
@click.option(
    "--show-secrets",
    is_flag=True,
    help="Do not hide SCRAM keys and the values of sensitive configs.",
)
def command(
    servers: tuple[Address, ...],
    config: Path | None,
    topic: str,
    start: str | int,
    until_end: bool,
    no_ops: bool,
    output: str,
    show_secrets: bool,
) -> None:
    """Print the records of the metadata topic as JSON lines, and follow new ones as they commit.

    \b
      {"offset": 7, "epoch": 1, "timestamp": 1795231027885,
       "type": "TOPIC_RECORD", "version": 0, "data": {...}}

    A record that cannot be decoded has "error" in place of the last three. Of the audit topic:

    \b
      {"partition": 0, "offset": 2, "timestamp": 1795231027885,
       "change": {"api": "CreateTopics", ...}}

    Of a view topic (kwire views lists them):

    \b
      {"offset": 117440512, "timestamp": 1795231027885,
       "headers": {"cluster_id": "2df6cE7sSnWyxRvcxZGPwA"},
       "key": {"name": "orders"}, "value": {"name": "orders", ...}}
    """
    from gateway.cli import tail_audit, tail_views

    if topic == AUDIT_TOPIC:
        show, tell = tail_audit.text_line, tail_audit.describe
    elif topic in VIEW_TOPICS:
        show, tell = tail_views.text_line, tail_views.describe
    else:
        show, tell = text_line, lambda record: describe(record, show_secrets)
    hides = not no_ops and not wants_json(output)
    if wants_json(output):
        show = json_line

    def take(record: Any) -> None:
        line = tell(record)
        if not (hides and line.get("type") == _NO_OP):
            click.echo(show(line))

    try:
        follow(server_of(servers, config), topic, start, until_end, take)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def follow(
    server: Server,
    topic: str,
    start: str | int,
    until_end: bool,
    take: Callable[[Fetched], None],
) -> None:
    """Pass every record from ``start`` on to ``take``, without end or until the present end.

    Raises click.ClickException if the topic or offset does not exist, or cannot be read.
    """
    from gateway.cli.tail_audit import follow_all
    from gateway.cli.topic_reader import start_offset, with_reader

    async def work(reader: TopicReader) -> None:
        if topic == AUDIT_TOPIC:
            await follow_all(reader, start, until_end, take)
            return
        first, end = await reader.bounds(PARTITION)
        begin = start_offset(start, first, end, topic)
        async for records in reader.read(PARTITION, begin, end if until_end else None):
            for record in records:
                take(record)

    with_reader(server, topic, _CLIENT_ID, work)


def describe(record: Fetched, show_secrets: bool) -> dict[str, Any]:
    """Return the JSON object of a record."""
    from kwire.errors import WireError
    from kwire.records import decode_metadata_record
    from kwire.records.redact import redact

    epoch = record.leader_epoch if record.leader_epoch >= 0 else None
    line: dict[str, Any] = {"offset": record.offset, "epoch": epoch, "timestamp": record.timestamp}
    try:
        name, version, message = decode_metadata_record(record.value or b"")
        data = message.to_json(version)
    except WireError as error:
        line["error"] = str(error)
        if show_secrets:  # a record that cannot be decoded may hold any secret
            line["value"] = (
                None if record.value is None else base64.b64encode(record.value).decode("ascii")
            )
        return line
    return line | {
        "type": name,
        "version": version,
        "data": data if show_secrets else redact(name, data),
    }
