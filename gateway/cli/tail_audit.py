"""Implements ``kwire tail`` of the audit topic: all its partitions, one change in each record."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.lines import moment
from gateway.ports import AUDIT_TOPIC

if TYPE_CHECKING:
    from kafka import KafkaConsumer

_POLL_MS: Final = 500
#: How long to wait for the next record below the end, s.
_STALLED_S: Final = 30


def follow(
    consumer: KafkaConsumer, start: str | int, until_end: bool, take: Callable[[Any], None]
) -> None:
    """Pass every change from ``start`` on to ``take``, without end or until the present end.

    The changes of one node come in its order, those of several as they arrive. Raises
    click.ClickException, kafka-python's KafkaError.
    """
    from kafka import TopicPartition

    numbers = sorted(consumer.partitions_for_topic(AUDIT_TOPIC) or ())
    partitions = [TopicPartition(AUDIT_TOPIC, number) for number in numbers]
    if isinstance(start, int) and len(partitions) > 1:
        why = (
            f"{AUDIT_TOPIC} has {len(partitions)} partitions, and an offset is of one: give"
            " beginning or end"
        )
        raise click.ClickException(why)
    consumer.assign(partitions)
    first, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for partition in partitions:
        offset = {"beginning": first[partition], "end": ends[partition]}.get(str(start), start)
        if not first[partition] <= offset <= ends[partition]:
            where = f"it goes from {first[partition]} to {ends[partition]}"
            raise click.ClickException(f"offset {offset} is not in {AUDIT_TOPIC}: {where}")
        consumer.seek(partition, offset)
    for record in _records(consumer, ends if until_end else None):
        take(record)


def _records(consumer: KafkaConsumer, ends: dict[Any, int] | None) -> Iterator[Any]:
    patience = time.monotonic() + _STALLED_S
    while ends is None or any(
        consumer.position(partition) < end for partition, end in ends.items()
    ):
        polled = consumer.poll(timeout_ms=_POLL_MS)
        found = [record for records in polled.values() for record in records]
        for record in sorted(found, key=lambda one: (one.timestamp, one.partition, one.offset)):
            if ends is None or record.offset < ends[_of(record)]:
                yield record
        if ends is None or polled:
            patience = time.monotonic() + _STALLED_S
        elif time.monotonic() > patience:
            raise click.ClickException(
                f"the server returned no more records of {AUDIT_TOPIC}, which has more, for"
                f" {_STALLED_S} s"
            )


def _of(record: Any) -> Any:
    from kafka import TopicPartition

    return TopicPartition(record.topic, record.partition)


def describe(record: Any) -> dict[str, Any]:
    """Return the JSON object of a consumer's record."""
    line = {"partition": record.partition, "offset": record.offset, "timestamp": record.timestamp}
    try:
        change = json.loads(record.value or b"")
    except ValueError as error:
        return line | {"error": f"no JSON: {error}"}
    return line | ({"change": change} if isinstance(change, dict) else {"error": "no JSON object"})


def text_line(line: dict[str, Any]) -> str:
    """Return partition, offset, time (UTC), request, requester, resources and metadata offsets as a
    line.
    """
    head = f"{line['partition']:>3} {line['offset']:>8}  {moment(line['timestamp'])}  "
    if "error" in line:
        return head + click.style(f"cannot be decoded: {line['error']}", fg="red")
    try:
        return head + _sentence(line["change"])
    except (KeyError, TypeError):  # the JSON is not an audit entry
        return head + _plain(json.dumps(line["change"]))


def _sentence(change: dict[str, Any]) -> str:
    """Return an audit entry as text. Raises KeyError, TypeError if a member is missing or has
    another type.
    """
    what = click.style(f"{change['api']} v{change['version']}", bold=True)
    who = f"{change['principal']} from {change['host']}" + (
        f" ({change['client_id']})" if change["client_id"] else ""
    )
    named = " ".join(
        one["type"] + (f":{one['name']}" if one["name"] is not None else "")
        for one in change["resources"]
    )
    left = change["resources_in_all"] - len(change["resources"])
    more = f" and {left} more" if left else ""
    where = f"offsets {change['offset']}-{change['last_offset']} epoch {change['leader_epoch']}"
    return f"{what}  {_plain(who)}  {_plain(named)}{more}  {where}"


def _plain(text: str) -> str:
    """Escape characters that a terminal would execute: clients choose the names."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )
