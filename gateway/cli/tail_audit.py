"""Implements ``kwire tail`` of the audit topic: all its partitions, one change in each record.

A topic with replicas has one partition. Of controllers alone each leads the partition of the
changes that it carried out, and no other node has a copy: the entries of the nodes that are up are
printed at once, and a line says whose are missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import click
import trio

from gateway.cli.lines import moment, not_decoded, note
from gateway.cli.server_nodes import ServerError
from gateway.cli.topic_reader import Fetched, TopicReader, start_offset
from gateway.ports.services import AUDIT_TOPIC
from kwire.printable import printable

#: How long to try to reach each of the nodes, s: those that are up wait for the others.
_CONNECT_S: Final = 3.0
_INCOMPLETE: Final = 1


@dataclass(slots=True)
class _Stream:
    """The entries of one partition. ``next_offset`` is None until its leader has answered."""

    reader: TopicReader
    partition: int
    start: str | int
    next_offset: int | None = None
    records: AsyncGenerator[list[Fetched], None] | None = None
    held: list[Fetched] = field(default_factory=list)  #: the next ones, the last comes first

    async def find(self) -> None:
        """Ask the leader for the bounds. Raises click.ClickException for a start out of range."""
        try:
            first, end = await self.reader.bounds_now(self.partition)
        except ServerError as error:
            self._missing(error)
            return
        self.next_offset = start_offset(self.start, first, end, AUDIT_TOPIC)
        self.records = self.reader.read(self.partition, self.next_offset, end)

    async def fill(self) -> bool:
        """Return whether ``held`` has the next entry below the end."""
        if not self.held and self.records is not None:
            try:
                found: list[Fetched] = await anext(self.records, [])
            except ServerError as error:
                self._missing(error)
            else:
                self.held = found[::-1]
        return bool(self.held)

    def take(self) -> Fetched:
        """Return the next entry."""
        record = self.held.pop()
        self.next_offset = record.offset + 1
        return record

    def _missing(self, error: ServerError) -> None:
        self.records = None
        note(f"entries of {AUDIT_TOPIC}-{self.partition} are missing: {error.message}")

    async def follow(self, take: Callable[[Fetched], None]) -> None:
        """Pass on the entries behind those that were taken, for ever, and wait for a leader before.

        Raises click.ClickException.
        """
        if self.next_offset is None:
            first, end = await self.reader.bounds_at_last(self.partition)
            self.next_offset = start_offset(self.start, first, end, AUDIT_TOPIC)
        async for records in self.reader.read(self.partition, self.next_offset, None):
            for record in records:
                take(record)


async def follow_all(
    reader: TopicReader, start: str | int, until_end: bool, take: Callable[[Fetched], None]
) -> None:
    """Pass every change from ``start`` on to ``take``, without end or until the present end.

    Those up to the present end come in the order of their times, later ones as they arrive. Raises
    click.ClickException; exits with 1 at the end if entries are missing.
    """
    if isinstance(start, int) and len(reader.leaders) > 1:
        raise click.ClickException(
            f"{AUDIT_TOPIC} has {len(reader.leaders)} partitions, and an offset is of one: give"
            " beginning or end"
        )
    streams = [
        _Stream(reader.another(_CONNECT_S), partition, start) for partition in reader.leaders
    ]
    try:
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(stream.find)
        await _print_by_time(streams, take)
        if not until_end:
            async with trio.open_nursery() as nursery:
                for stream in streams:
                    nursery.start_soon(stream.follow, take)
        if any(stream.records is None for stream in streams):
            sys.exit(_INCOMPLETE)
    finally:
        for stream in streams:
            await stream.reader.aclose()


async def _print_by_time(streams: list[_Stream], take: Callable[[Fetched], None]) -> None:
    while found := [stream for stream in streams if await stream.fill()]:
        first = min(found, key=lambda one: (one.held[-1].timestamp, one.partition))
        take(first.take())


def describe(record: Fetched) -> dict[str, Any]:
    """Return the JSON object of a record."""
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
        return head + not_decoded(line["error"])
    try:
        return head + _sentence(line["change"])
    except (KeyError, TypeError):  # the JSON is not an audit entry
        return head + printable(json.dumps(line["change"]))


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
    return f"{what}  {printable(who)}  {printable(named)}{more}  {where}"
