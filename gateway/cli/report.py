"""Implements ``kwire report``: writes the page of a log directory as one HTML file."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.lines import note as tell

if TYPE_CHECKING:
    from gateway.page.change_index import ChangeIndex
    from gateway.page.quorum import Leader
    from gateway.sources.log_partition import LogPartition
    from gateway.views.cursor import ViewCursor

#: Bytes of the log that are read at once.
_READ_BYTES = 1 << 18


@click.command(
    "report",
    short_help="Write the page of a log directory as one HTML file.",
    epilog="""\b
Examples:
  kwire report /var/lib/kafka/metadata --html ticket.html
  kwire report backup/__cluster_metadata-0 --html ticket.html

Exit status: 1 where the log cannot be read, or leads to no state.""",
)
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--html",
    "target",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="The file to write.",
)
def command(directory: Path, target: Path) -> None:
    """Write the page that `kwire serve` has at its management port as a file that needs no server:
    figures, timeline, replicas, and the state at the end of the log.

    DIR is a __cluster_metadata-0 directory or its parent, or one .log or .checkpoint file. Secrets
    are redacted. A browser opens the file, and it loads nothing.
    """
    from gateway.page.assets import report_html
    from gateway.sources import SourceError

    try:
        facts, packed, notes = _read(directory)
    except SourceError as error:
        raise click.ClickException(str(error)) from None
    for note in notes:
        tell(note)
    target.write_text(report_html(facts, packed), encoding="utf-8")
    changes = facts["changes"]["offset"]
    click.echo(f"{target}: the log to offset {changes}, {target.stat().st_size:,} bytes")


def _read(directory: Path) -> tuple[dict[str, Any], dict[str, bytes], list[str]]:
    """Return the facts, the packed texts, and sentences about the log. Raises SourceError."""
    from gateway.base.version import installed_version
    from gateway.page.change_index import ChangeIndex
    from gateway.page.snapshot_json import LogEnd, LogSource, followed, now_json
    from gateway.sources import open_log
    from gateway.views.cursor import ViewCursor
    from gateway.views.encode import ViewEncoder
    from kwire.cluster.shell_view import shell_view

    log = open_log(directory)
    log.refresh()
    while log.refresh_delay_s == 0:
        log.refresh()
    if log.log_start_offset > 0 and not log.snapshot_end:
        raise click.ClickException(
            f"{directory}: the log begins at offset {log.log_start_offset}, and no snapshot leads"
            " there"
        )
    cursor = ViewCursor(log.log_start_offset, log.snapshot_end)
    changes = ChangeIndex(ViewEncoder(log.cluster_id), bytes_max=1 << 62)
    _fold(log, cursor, changes)
    newest = log.max_timestamp()
    facts = now_json(
        LogSource(installed_version(), None, log.cluster_id, f"log directory {directory.name}"),
        round(1000 * time.time()),
        {"ready": True, "state": "ready"},
        LogEnd(log.log_start_offset, log.high_watermark, log.leader_epoch),
        cursor.image.metadata_version,
        _leaders(log),
        followed(cursor, changes, 0),
        latest=None if newest is None else newest.timestamp,
    )
    return (
        facts,
        _texts(cursor, changes, shell_view(cursor.image)),
        [str(one) for one in log.problems],
    )


def _fold(log: LogPartition, cursor: ViewCursor, changes: ChangeIndex) -> None:
    from gateway.sources.gc_tuning import collector_paused

    with collector_paused():
        while cursor.next_offset < log.high_watermark or not cursor.is_hungry:
            if cursor.is_hungry:
                cursor.feed(_bytes(log, cursor.next_offset, _READ_BYTES))
            for change in cursor.step().changes:
                changes.add(change)


def _leaders(log: LogPartition) -> list[Leader]:
    """Return the leaders of all epochs, the newest first."""
    from gateway.page.quorum import leader_of

    return [
        leader_of(epoch, offset, _bytes(log, offset, 1))
        for epoch, offset in reversed(log.served.epochs)
    ]


def _bytes(log: LogPartition, offset: int, bytes_max: int) -> bytes:
    """Return whole batches. Raises click.ClickException where the log has changed meanwhile."""
    from gateway.ports.services import OffsetOutOfRange
    from gateway.sources.log_reader import content

    with contextlib.suppress(OffsetOutOfRange):
        read = log.read(offset, bytes_max)
        try:
            data = content(read.chunks)
        finally:
            read.release()
        if data:
            return data
    raise click.ClickException("the log was truncated while it was read: run this again")


def _texts(cursor: ViewCursor, changes: ChangeIndex, state: dict[str, Any]) -> dict[str, bytes]:
    """Return the rows of all changes, the changes in full by blocks, and the state's tree."""
    import zlib

    from gateway.page.timeline_rows import offset_text

    blocks = changes.blocks()
    rows = b",".join(block.rows.rstrip(b"\n").replace(b"\n", b",") for block in blocks)
    last = json.dumps(offset_text(changes.last)).encode()
    texts = {
        "rows": b'{"number":0,"last":%s,"rows":[%s]}' % (last, rows),
        "tree": json.dumps(state).encode(),
    }
    for number, block in enumerate(blocks):
        texts[f"lines-{number}"] = zlib.decompress(block.lines)
    return texts
