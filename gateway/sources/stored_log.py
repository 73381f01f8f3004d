"""Holds the open log of a partition with its reader and its producers: opens, rolls and closes it,
and closes it after a failure of the disk.

Who writes to it, leader, follower, retention or cleaner, has its turn from
``gateway.sources.partition_jobs``. Source: ``UnifiedLog``, ``LogManager``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.broker.produce.refusal import BatchRefused
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import DiskFailed, LogError
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.files.partition_metadata import FILE_NAME as PARTITION_METADATA
from gateway.log.files.problem import Problem
from gateway.log.partition.log_move import LogMove
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.partition_directories import remove_directory
from gateway.log.partition.roll_policy import begins_segment
from gateway.log.partition.unified_log import UnifiedLog
from gateway.log.reading.own_log import OwnLog
from gateway.sources.opened_log import OpenedLog, open_log, read_producers
from gateway.sources.producer_log import ProducerLog
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from kwire.records.header import BatchHeader
    from kwire.uuid import Uuid


class StoredLog:
    """The log in ``directory``; ``log`` and ``reader`` are None while it is not open. ``reopen`` is
    called, by any thread, when a failure has closed it.
    """

    def __init__(
        self,
        directory: Path,
        topic_id: Uuid,
        index: int,
        settings: Callable[[], LogSettings],
        disk: Disk,
        checkpoints: Checkpoints | None,
        reopen: Callable[[], None],
    ) -> None:
        """``settings`` returns the configuration of the topic as of now."""
        self.directory = directory
        self.topic_id = topic_id
        self.index = index
        self.topic = directory.name.rpartition("-")[0]
        self.settings = settings
        self.disk = disk
        #: Repairs at the opening, as sentences.
        self.repairs: list[str] = []
        #: Names of the segments that retention has deleted.
        self.deleted: list[str] = []
        self.checkpoints = checkpoints or Checkpoints(directory.parent, disk, self.repairs)
        #: Why it cannot be opened.
        self.fault: Problem | None = None
        #: The last error of the disk, for :meth:`DataPartition.performed`'s caller.
        self.disk_failure: DiskFailed | None = None
        self.log: UnifiedLog | None = None
        self.reader: OwnLog | None = None
        self.producers = ProducerLog(directory, disk)
        self._reopen = reopen
        self._is_closed = False

    @property
    def high_watermark_at_start(self) -> int:
        """The high watermark that the last process knew, 0 without one."""
        return self.checkpoints.high_watermarks.get(self.topic, self.index) or 0

    @property
    def writable(self) -> UnifiedLog | None:
        """The log, if it can be changed."""
        return None if self.log is None or self.log.guard.reason else self.log

    def open(self) -> None:
        """Open the log, or begin one, unless it is open or was closed for good. A failure is in
        :attr:`fault`.
        """
        if self.log is not None or self._is_closed:
            return
        try:
            if not (self.directory / PARTITION_METADATA).exists():
                # They are of a topic of the same name that was deleted.
                self.checkpoints.forget(self.topic, self.index)
            opened = self._opened()
            opened.producers.states.keep_verifications_of(self.producers.states)
            self.log, self.reader, self.producers = opened
            self.fault = None
        except LogError as error:
            self._note(error)
            self.fault = Problem(str(self.directory), -1, str(error))

    def _note(self, error: LogError) -> None:
        if isinstance(error, DiskFailed):
            self.disk_failure = error

    def _opened(self) -> OpenedLog:
        opened = open_log(
            self.directory,
            self.topic_id,
            self.disk,
            self.settings(),
            self.repairs,
            self.checkpoints.log_starts.get(self.topic, self.index) or 0,
            self.recovery_point,
        )
        opened.log.delete_delay_ms = lambda: self.settings().file_delete_delay_ms
        try:
            # Where records were lost others will have their offsets.
            end_offset = opened.log.end_offset
            self.checkpoints.recovery_points.lower(self.topic, self.index, end_offset)
        except LogError:
            with contextlib.suppress(LogError):
                opened.log.close()
            raise
        return opened

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on disk; 0 where nothing is synced."""
        known = self.checkpoints.recovery_points.get(self.topic, self.index)
        return (known or 0) if self.disk.fsync else 0

    def note_recovery_point(self, offset: int) -> None:
        """Everything below ``offset`` is on disk. It is saved with those of the other logs."""
        if self.disk.fsync:
            self.checkpoints.recovery_points.note(self.topic, self.index, offset)

    def failed(self, error: LogError) -> BatchRefused:
        """The disk refused a write. A full disk leaves the log as it was; after another failure the
        log is closed, and opened again.
        """
        self._note(error)
        if self.log is not None and self.log.guard.reason:
            with contextlib.suppress(LogError):
                self.log.close()
            self.producers.close()
            self.log = None
            self._reopen()
        return BatchRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def is_due_to_roll(self, header: BatchHeader) -> bool:
        """Whether a batch would begin a segment."""
        log = self.log
        if log is None or (size := log.active_size) == 0:
            return False
        return begins_segment(
            self.settings(), header.size, header.max_timestamp, size, log.first_timestamp
        )

    def is_due_to_flush(self, messages: int) -> bool:
        """Whether an append of so many records is to wait for the disk (``flush.messages``)."""
        log, settings = self.log, self.settings()
        if log is None or not settings.fsync:
            return False
        return log.end_offset + messages - log.flushed_offset >= settings.flush_messages

    def roll(self) -> None:
        """Begin a segment, with a snapshot of the producers. Raises LogError."""
        assert self.log is not None, "the log is open"
        self.log.roll()
        with self.log.guard.several_steps():
            self.producers.rolled(self.log.bases)
        self.note_recovery_point(self.log.bases[-1])
        self.show()

    def show(self) -> None:
        """Let readers find what was written. Raises DiskFailed."""
        assert self.reader is not None, "the log is open"
        with doing("read", self.directory):
            self.reader.refresh()

    def reread(self) -> None:
        """The log was cut: read its producers again, and show readers what is left. Raises
        LogError.
        """
        assert self.log is not None, "the log is open"
        with self.log.guard.several_steps():
            self.producers.close()
            self.producers = read_producers(self.log, self.recovery_point)
            self.reader = OwnLog(self.log, snapshot_prefix=False, is_compacted=True)

    def flush(self) -> bool:
        """Write everything to the disk; whether it is there."""
        if self.log is None:
            return False
        try:
            self.log.flush()
        except LogError as error:
            self.failed(error)
            return False
        return True

    def close(self) -> None:
        """Write everything to disk and close the files for good. Raises LogError."""
        self._is_closed = True
        log, self.log = self.log, None
        if log is not None:
            end_offset = None if log.guard.reason else log.end_offset
            try:
                log.close()
            except LogError:
                end_offset = None
                raise
            finally:
                self.producers.close(end_offset)
            if end_offset is not None:
                self.note_recovery_point(end_offset)

    def move(self, made: LogMove, checkpoints: Checkpoints) -> bool:
        """Put the copy ``made``, in the directory with ``checkpoints``, in the place of the log;
        whether it is there. Nothing is appended meanwhile; the log is open behind it.
        """
        log = self.writable
        if log is None or self._is_closed:
            return False
        end_offset, old = log.end_offset, self.checkpoints
        self.log = None
        try:
            log.close()
            self.producers.close(end_offset)
            made.finish()
            for one, other in zip(old.all, checkpoints.all, strict=True):
                other.write(self.topic, self.index, one.get(self.topic, self.index))
            left = made.leave()
        except LogError as error:
            # Both have the same records: the copy goes, so that no start takes it for the newer.
            self._note(error)
            with contextlib.suppress(LogError):
                made.drop()
            self.open()
            return False
        self.directory, self.checkpoints = made.directory, checkpoints
        self.note_recovery_point(end_offset)
        self.open()
        with contextlib.suppress(LogError):
            old.forget(self.topic, self.index)
            remove_directory(left)
        return True

    def give_up(self) -> None:
        """Close the files for good: the disk has failed, and what is on it is not known."""
        self._is_closed = True
        log, self.log = self.log, None
        if log is not None:
            log.guard.fail("the log directory is offline")
            with contextlib.suppress(LogError):
                log.close()
        self.producers.close()

    def delete(self, remove: Callable[[Path], None]) -> None:
        """The topic is deleted: close the log, and call ``remove`` with the directory."""
        with contextlib.suppress(LogError):
            self.close()
        with contextlib.suppress(LogError):  # the next topic of this name forgets them, too
            self.checkpoints.forget(self.topic, self.index)
        remove(self.directory)
