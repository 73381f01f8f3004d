"""Decides when this node writes a snapshot of its log, and writes it (KIP-630).

A snapshot is written in a thread from a copy of the image that is served, which shares the records
with it, as in Kafka's ``SnapshotGenerator``. Where that image can be no snapshot, one is folded
from the files. It ends at the end of a committed batch, never inside a metadata transaction. It
deletes nothing: ``gateway.log.metadata.retention`` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.base.sizes import MIB
from gateway.log.files.errors import LogError
from gateway.log.metadata.listing import list_directory
from gateway.log.metadata.snapshot_file import Sink, SnapshotFile
from gateway.log.reading.log_cursor import LogGap
from gateway.sources.gc_tuning import collector_paused, release_incrementally
from gateway.sources.metadata_batch_loader import Position, State
from gateway.sources.metadata_replayer import MetadataReplayer, NoUsableSnapshot
from kwire.cluster import Image, image_records
from kwire.cluster.partition_writer import PartitionWriter
from kwire.errors import WireError
from kwire.messages.partition_record import PartitionRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import encode_metadata_record

#: Seconds until the next attempt after a failed one. An open transaction ends sooner.
RETRY_S: Final = 60.0
RETRY_TRANSACTION_S: Final = 1.0
#: Records that are written between two looks whether the snapshot is cancelled: some ms.
_CANCELLED_AFTER: Final = 1000


class Writer(Sink, Protocol):
    """A snapshot that no reader sees before it is frozen
    (``gateway.log.metadata.snapshot_writer.SnapshotWriter``).
    """

    def abandon(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """Bytes of log, and milliseconds, after which the next snapshot is due if the log has grown."""

    max_record_bytes: int = 20 * MIB  #: metadata.log.max.record.bytes.between.snapshots
    #: metadata.log.max.snapshot.interval.ms; 0 for no limit
    max_interval_ms: int = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Written:
    """A complete snapshot: its id, its size in bytes, and its records without header and footer."""

    snapshot_id: SnapshotId
    size: int
    records: int


class _NotNow(Exception):
    """No snapshot can be written now; the next attempt is due after ``retry_s`` seconds."""

    def __init__(self, reason: str, retry_s: float = RETRY_S) -> None:
        super().__init__(reason)
        self.retry_s = retry_s


class SnapshotGenerator:
    """Decides on the event loop (``due``) and writes in a thread (``write``), one call at a time.

    ``new_writer`` makes the file, as ``LocalLog.new_snapshot`` does. Times (``now``) are in s on
    any clock that never goes back.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: SnapshotSettings,
        new_writer: Callable[[SnapshotId], Writer],
        *,
        now: float,
    ) -> None:
        self.latest: Written | None = None
        #: Why the last attempt failed, as a sentence; None if it did not.
        self.problem: str | None = None
        self._directory = os.fspath(directory)
        self._settings = settings
        self._new_writer = new_writer
        self._bytes_before = 0
        self._since = now
        self._not_before = now
        self._cancelled = False

    def due(self, log_bytes: int, now: float) -> bool:
        """Return whether a snapshot is due. ``log_bytes``: bytes of log behind the snapshot that
        the image began with (``MetadataLoader.log_bytes``).
        """
        # The image began again with a snapshot that was just downloaded.
        if log_bytes < self._bytes_before:
            self._bytes_before, self._since = 0, now
        fresh, settings = log_bytes - self._bytes_before, self._settings
        if fresh <= 0 or now < self._not_before:
            return False
        overdue = (
            settings.max_interval_ms > 0 and (now - self._since) * 1000 >= settings.max_interval_ms
        )
        return overdue or fresh >= settings.max_record_bytes

    def write(
        self, high_watermark: int, log_bytes: int, now: float, state: State | None = None
    ) -> Written | None:
        """Write a snapshot of ``state``, or of the records below ``high_watermark``; return None,
        and set ``problem``, if it fails.

        ``log_bytes`` and ``now`` as for ``due``. It does not catch programming errors.
        """
        try:
            self._check_cancelled()
            if state is not None and self._is_new(state):
                written = self._write_image(*state)
            else:
                with collector_paused():
                    written = self._write(high_watermark)
        except _NotNow as error:
            self.problem, self._not_before = str(error), now + error.retry_s
        except (LogGap, NoUsableSnapshot, WireError, LogError) as error:
            self.problem, self._not_before = str(error), now + RETRY_S
        except OSError as error:
            self.problem, self._not_before = (
                f"{error.filename or self._directory}: {error.strerror or error}",
                now + RETRY_S,
            )
        else:
            self.latest, self.problem = written, None
            self._bytes_before, self._since, self._not_before = log_bytes, now, now
            return written
        return None

    def cancel(self) -> None:
        """Write no more snapshots: a :meth:`write` in progress ends within milliseconds, and leaves
        no file. For a server that stops; any thread may call it.
        """
        self._cancelled = True

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise _NotNow("the server stops")

    def _is_new(self, state: State) -> bool:
        """Whether ``state`` may be a snapshot, and ends after every existing snapshot. Raises
        OSError.
        """
        end = state.position.next_offset
        known = list_directory(self._directory).snapshots
        return bool(state.image.metadata_version) and all(one.end_offset < end for one in known)

    def _write(self, high_watermark: int) -> Written:
        replay = MetadataReplayer(self._directory)
        more = True
        while more:
            self._check_cancelled()
            # Again for each step: another thread that paused it may have enabled it meanwhile.
            with collector_paused():
                more = replay.step(high_watermark)
        fold = replay.fold
        try:
            self._check(replay, high_watermark)
            return self._write_image(fold.image, fold.position)
        finally:
            images = [fold.image]
            fold.image = Image()
            release_incrementally(images)

    def _check(self, replay: MetadataReplayer, high_watermark: int) -> None:
        """Raise _NotNow if the fold is no state for a snapshot."""
        fold = replay.fold
        if fold.lacks:
            raise _NotNow(f"a snapshot would not be the whole log: {fold.lacks}")
        if not fold.aligned:
            reason = (
                "a metadata transaction is open that began at offset "
                f"{fold.image.next_offset}, inside a batch"
            )
            raise _NotNow(reason, RETRY_TRANSACTION_S)
        if not fold.image.metadata_version:
            raise _NotNow(
                f"no metadata.version below offset {high_watermark}, and Kafka loads no snapshot "
                "without one"
            )
        if replay.snapshot is not None and fold.position.next_offset <= replay.snapshot.end_offset:
            raise _NotNow(f"nothing is committed behind the snapshot {replay.snapshot.file_name}")

    def _write_image(self, image: Image, position: Position) -> Written:
        snapshot_id = SnapshotId(position.next_offset, position.epoch)
        writer = self._new_writer(snapshot_id)
        records = 0
        try:
            file = SnapshotFile(
                writer,
                snapshot_id,
                last_contained_log_timestamp=position.timestamp,
                kraft_version=position.kraft_version,
                voters=position.voters,
            )
            partitions = PartitionWriter()
            for message, version in image_records(image):
                file.append(
                    partitions.write(message, version)
                    if isinstance(message, PartitionRecord)
                    else encode_metadata_record(message, version)
                )
                records += 1
                if not records % _CANCELLED_AFTER:
                    self._check_cancelled()
            file.finish()
        except BaseException:
            writer.abandon()
            raise
        return Written(snapshot_id, writer.size, records)
