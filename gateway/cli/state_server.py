"""Builds a cluster's state from a server of the metadata topic, read as by any consumer.

A log that starts after offset 0 does not lead to a state by itself. ``kwire serve`` puts the
records of the snapshot before it at the offsets below its start; with any other such server there
is no state.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.progress import Progress
from gateway.cli.state_errors import state_errors
from gateway.cli.topic_reader import with_reader
from gateway.ports.services import PARTITION
from kwire.cluster.image import METADATA_VERSION
from kwire.metadata_log.at import At, time_text
from kwire.metadata_log.fold import Fold, State
from kwire.protocol import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from gateway.cli.server_options import Server
    from gateway.cli.topic_reader import Fetched, TopicReader

_CLIENT_ID: Final = "kwire-state"
#: Reading so many records takes a second or two: show progress for more.
_PROGRESS_RECORDS_MIN: Final = 20_000


def load_server(server: Server, at: At) -> State:
    """Return the state at ``server`` up to ``at``, or to the present end. Raises
    click.ClickException.
    """
    with state_errors():
        return with_reader(
            server, CLUSTER_METADATA_TOPIC, _CLIENT_ID, lambda reader: _read(reader, at)
        )


async def _read(reader: TopicReader, at: At) -> State:
    where = reader.where
    first, end = await reader.bounds(PARTITION)
    if at.offset is not None and at.offset > end:
        raise click.ClickException(
            f"{where}: ends at offset {end}, there is no state before {at.offset} yet"
        )
    folding = _Folding(where, at, first, end)
    with contextlib.closing(Progress(folding.stop - first, _PROGRESS_RECORDS_MIN)) as progress:
        async with contextlib.aclosing(reader.read(PARTITION, first, end)) as batches:
            await folding.take_all(batches, progress)
    folding.start.check(at)
    now_first, _ = await reader.bounds(PARTITION)
    if now_first != first:
        raise click.ClickException(
            f"{where}: the start of its log moved while it was read: run this again"
        )
    return folding.state()


class _Folding:
    """Folds the records of a server up to ``at``. ``stop``: the offset behind the state."""

    def __init__(self, where: str, at: At, first: int, end: int) -> None:
        self.stop = end if at.offset is None else at.offset
        # A server puts a snapshot below the log start, and all of it is one state.
        self.start = _Start(where, first)
        self._fold = Fold(where, at)
        self._at = at
        self._epoch = -1

    async def take_all(
        self, batches: AsyncGenerator[list[Fetched], None], progress: Progress
    ) -> None:
        """Fold record after record. Raises click.ClickException."""
        first = self.start.first
        async for records in batches:
            for record in records:
                if not self._take(record):
                    return
            progress.at(records[-1].offset - first)

    def _take(self, record: Fetched) -> bool:
        """Fold a record; return False without it if it is past the end."""
        in_snapshot = self.start.holds(record)
        if not in_snapshot and self._at.ends_before(record.offset, record.timestamp):
            self.stop = record.offset if self._at.offset is None else self._at.offset
            return False
        self._epoch = record.leader_epoch
        # Control records are not among those of the reader.
        self._fold.loader.skip_to(record.offset, self._epoch)
        self._fold.take(record.offset, self._epoch, record.timestamp, record.value)
        self.start.took(record.timestamp, in_snapshot)
        return True

    def state(self) -> State:
        """Return the state of what was folded."""
        self._fold.loader.skip_to(max(self.stop, self.start.offset), self._epoch)
        return self._fold.state()


class _Start:
    """Finds the start of a server's log while its records arrive.

    The records of a snapshot stand between its header at the first offset and its footer, both
    control records that the reader does not show. So the first missing offset is the footer's, and
    the log starts behind it.
    """

    def __init__(self, where: str, first: int) -> None:
        self._where = where
        self.first = first
        self._expected: int | None = None
        self._snapshot_ms: int | None = None
        self._log_seen = first == 0
        self.offset = 0  #: start offset of the log, as far as it is known

    def holds(self, record: Fetched) -> bool:
        """True if the record, the next one, belongs to the snapshot. Raises click.ClickException
        without a snapshot.
        """
        if self._log_seen:
            return False
        if self._expected is None:
            _check_first(self._where, self.first, record)
        elif record.offset != self._expected:
            self.offset = self._expected + 1
            self._log_seen = True
            return False
        self._expected = record.offset + 1
        self.offset = self._expected + 1
        return True

    def took(self, timestamp: int, in_snapshot: bool) -> None:
        """Note that a record written at ``timestamp`` (ms) was folded."""
        self._snapshot_ms = timestamp if in_snapshot else None

    def check(self, at: At) -> None:
        """Check that this log leads to the state of ``at``. Raises click.ClickException."""
        if at.offset is not None and at.offset < self.offset:
            raise click.ClickException(
                f"{self._where}: its log starts at offset {self.offset}: the state before offset"
                f" {at.offset} is no longer there"
            )
        # A snapshot's own time is when it was written. The requested time is covered once the log
        # has a record of it.
        if (
            at.time_ms is not None
            and self._snapshot_ms is not None
            and at.time_ms < self._snapshot_ms
        ):
            raise click.ClickException(
                f"{self._where}: its log starts at offset {self.offset}, later than"
                f" {time_text(at.time_ms)}"
            )


def _check_first(where: str, first: int, record: Fetched) -> None:
    """Check that a snapshot begins with the metadata version (``FeaturesImage.write``), as no log
    does.
    """
    from kwire.errors import WireError
    from kwire.records import decode_metadata_record

    try:
        message: Any = decode_metadata_record(record.value or b"")[2]
    except WireError:
        message = None
    if getattr(message, "NAME", "") != "FeatureLevelRecord" or message.name != METADATA_VERSION:
        raise click.ClickException(
            f"{where}: its log starts at offset {first} and the snapshot before it is not served: "
            "set snapshot.prefix there if it is `kwire serve`, or read the files"
        )
