"""Builds a cluster's state from a server of the metadata topic, read by kafka-python as by any
consumer.

A log that starts after offset 0 does not lead to a state by itself. ``kwire serve`` puts the
records of the snapshot before it at the offsets below its start; with any other such server there
is no state.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.address import Address
from gateway.cli import tail
from gateway.cli.progress import Progress
from gateway.cli.state_source import state_errors
from gateway.ports import PARTITION
from kwire.cluster.image import METADATA_VERSION
from kwire.metadata_log.at import At, time_text
from kwire.metadata_log.fold import Fold, State
from kwire.protocol import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from kafka import KafkaConsumer

_UNKNOWN: Final = -1
#: Reading so many records takes a second or two: show progress for more.
_PROGRESS_RECORDS_MIN: Final = 20_000


def load_server(server: Address, at: At) -> State:
    """Return the state at ``server`` up to ``at``, or to the present end. Raises
    click.ClickException.
    """
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import KafkaError

    where = str(server)
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=where,
            client_id="kwire-state",
            group_id=None,
            bootstrap_timeout_ms=tail.BOOTSTRAP_TIMEOUT_MS,
            enable_auto_commit=False,
            # report a lost position as an error instead of hiding it
            auto_offset_reset="none",
            allow_auto_create_topics=False,
        )
        try:
            if PARTITION not in (consumer.partitions_for_topic(CLUSTER_METADATA_TOPIC) or ()):
                raise click.ClickException(f"{where} has no topic {CLUSTER_METADATA_TOPIC}")
            with state_errors():
                return _read(consumer, TopicPartition(CLUSTER_METADATA_TOPIC, PARTITION), where, at)
        finally:
            consumer.close()
    except KafkaError as error:
        raise click.ClickException(f"{where}: {error}") from None


def _read(consumer: KafkaConsumer, partition: Any, where: str, at: At) -> State:
    end = tail.go_to(consumer, partition, "beginning")
    first: int = consumer.position(partition)
    if at.offset is not None and at.offset > end:
        raise click.ClickException(
            f"{where}: ends at offset {end}, there is no state before {at.offset} yet"
        )
    stop = end if at.offset is None else at.offset
    fold = Fold(where, at)
    # A server puts a snapshot below the log start, and all of it is one state.
    start = _Start(where, first)
    epoch = _UNKNOWN
    with contextlib.closing(Progress(stop - first, _PROGRESS_RECORDS_MIN)) as progress:
        for record in tail.records(consumer, partition, end):
            in_snapshot = start.holds(record)
            if not in_snapshot and at.ends_before(record.offset, record.timestamp):
                stop = record.offset if at.offset is None else at.offset
                break
            epoch = _UNKNOWN if record.leader_epoch is None else record.leader_epoch
            fold.loader.skip_to(
                record.offset, epoch
            )  # control records, which the client does not show
            fold.take(record.offset, epoch, record.timestamp, record.value)
            start.took(record.timestamp, in_snapshot)
            if record.offset % 1000 == 0:
                progress.at(record.offset - first)
    start.check(at)
    if consumer.beginning_offsets([partition])[partition] != first:
        raise click.ClickException(
            f"{where}: the start of its log moved while it was read: run this again"
        )
    fold.loader.skip_to(max(stop, start.offset), epoch)
    return fold.state()


class _Start:
    """Finds the start of a server's log while its records arrive.

    The records of a snapshot stand between its header at the first offset and its footer, both
    control records that the client does not show. So the first missing offset is the footer's, and
    the log starts behind it.
    """

    def __init__(self, where: str, first: int) -> None:
        self._where = where
        self._first = first
        self._expected: int | None = None
        self._snapshot_ms: int | None = None
        self._log_seen = first == 0
        self.offset = 0  #: start offset of the log, as far as it is known

    def holds(self, record: Any) -> bool:
        """True if the record, the next one, belongs to the snapshot. Raises click.ClickException
        without a snapshot.
        """
        if self._log_seen:
            return False
        if self._expected is None:
            _check_first(self._where, self._first, record)
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


def _check_first(where: str, first: int, record: Any) -> None:
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
