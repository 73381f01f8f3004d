"""Implements ``kwire tail``: follows the metadata topic of any server and prints its records
decoded, without secrets.

A kafka-python consumer fetches, as any client would. It does not return control records, so these
are not printed: ``kwire decode`` prints them from files.
"""

from __future__ import annotations

import base64
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.address import Address
from gateway.cli.address import parse_address
from gateway.cli.lines import json_line, text_line, wants_json
from gateway.ports import AUDIT_TOPIC, PARTITION
from gateway.view_topics import VIEW_TOPICS
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

_POLL_MS: Final = 500
#: How long to try to reach a server, s.
BOOTSTRAP_TIMEOUT_MS: Final = 10_000
#: How long to wait for the next record below the end, s.
STALLED_S: Final = 30
_INTERRUPTED: Final = 130


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
@click.option(
    "-b",
    "--bootstrap-server",
    "server",
    required=True,
    metavar="HOST:PORT",
    type=parse_address,
    help="The server to read.",
)
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
    "-o",
    "--output",
    type=click.Choice(["auto", "text", "json"]),
    default="auto",
    show_default=True,
    help="Lines for people, or JSON lines; auto: for people on a terminal, JSON on a pipe.",
)
@click.option(
    "--show-secrets",
    is_flag=True,
    help="Do not hide SCRAM keys and the values of sensitive configs.",
)
def command(
    server: Address, topic: str, start: str | int, until_end: bool, output: str, show_secrets: bool
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
       "key": {"name": "orders"}, "value": {"name": "orders", ...}}
    """
    from kafka.errors import KafkaError

    from gateway.cli import tail_audit, tail_views

    if topic == AUDIT_TOPIC:
        show, tell = tail_audit.text_line, tail_audit.describe
    elif topic in VIEW_TOPICS:
        show, tell = tail_views.text_line, tail_views.describe
    else:
        show, tell = text_line, lambda record: describe(record, show_secrets)
    if wants_json(output):
        show = json_line
    try:
        with_consumer(
            server, topic, start, until_end, lambda record: click.echo(show(tell(record)))
        )
    except KafkaError as error:
        raise click.ClickException(f"{server}: {error}") from None
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def with_consumer(
    server: Address, topic: str, start: str | int, until_end: bool, take: Callable[[Any], None]
) -> None:
    """Pass every record from ``start`` on to ``take``, without end or until the present end.

    Raises click.ClickException if the topic or offset does not exist, and kafka-python's
    KafkaError.
    """
    from kafka import KafkaConsumer, TopicPartition

    where = str(server)
    consumer = KafkaConsumer(
        bootstrap_servers=where,
        client_id="kwire-tail",
        group_id=None,
        bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
        enable_auto_commit=False,
        auto_offset_reset="none",  # report a lost position as an error instead of hiding it
        allow_auto_create_topics=False,
    )
    try:
        partition = TopicPartition(topic, PARTITION)
        listed = PARTITION in (consumer.partitions_for_topic(topic) or ())
        if not listed and not _exists(where, topic):
            raise click.ClickException(f"{where} has no topic {topic}")
        if topic == AUDIT_TOPIC:
            from gateway.cli import tail_audit

            tail_audit.follow(consumer, start, until_end, take)
            return
        end = go_to(consumer, partition, start)
        for record in records(consumer, partition, end if until_end else None):
            take(record)
    finally:
        consumer.close()


def _exists(where: str, topic: str) -> bool:
    """Ask for the topic by its name: the list of all topics, in which kafka-python's consumer
    looks, may lack the view topics (``metadata.views.list``).
    """
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(
        bootstrap_servers=where,
        client_id="kwire-tail",
        bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
    )
    try:
        [found] = admin.describe_topics([topic])
    finally:
        admin.close()
    return bool(found["error_code"] == ErrorCode.NONE)


def go_to(consumer: KafkaConsumer, partition: TopicPartition, start: str | int) -> int:
    """Seek the consumer to ``start``; return the present end. Raises click.ClickException for an
    offset out of range.
    """
    consumer.assign([partition])
    first = consumer.beginning_offsets([partition])[partition]
    end: int = consumer.end_offsets([partition])[partition]
    offset = {"beginning": first, "end": end}.get(str(start), start)
    if not first <= offset <= end:
        raise click.ClickException(
            f"offset {offset} is not in {partition.topic}: it goes from {first} to {end}"
        )
    consumer.seek(partition, offset)
    return end


def records(consumer: KafkaConsumer, partition: TopicPartition, end: int | None) -> Iterator[Any]:
    """Yield the consumer's records in order; with ``end`` those below it, without waiting for more.

    Raises click.ClickException if a server stops returning records below its end.
    """
    patience = time.monotonic() + STALLED_S
    # Do not wait for the record before the end: it may be a control record, which the consumer
    # skips without a sign.
    while end is None or consumer.position(partition) < end:
        before = consumer.position(partition)
        for record in consumer.poll(timeout_ms=_POLL_MS).get(partition, ()):
            if end is None or record.offset < end:
                yield record
        if end is None or consumer.position(partition) > before:
            patience = time.monotonic() + STALLED_S
        elif time.monotonic() > patience:
            raise click.ClickException(
                f"the server returned no records from offset {before} on, of {end}, for"
                f" {STALLED_S} s"
            )


def describe(record: Any, show_secrets: bool) -> dict[str, Any]:
    """Return the JSON object of a consumer's record."""
    from kwire.errors import WireError
    from kwire.records import decode_metadata_record
    from kwire.records.redact import redact

    # kafka-python returns -1 for "none"; JSON has null.
    epoch = (
        record.leader_epoch
        if record.leader_epoch is not None and record.leader_epoch >= 0
        else None
    )
    line: dict[str, Any] = {"offset": record.offset, "epoch": epoch, "timestamp": record.timestamp}
    try:
        name, version, message = decode_metadata_record(record.value)
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
