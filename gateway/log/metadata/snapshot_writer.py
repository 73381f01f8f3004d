"""Writes a snapshot file piece by piece, as a ``.part`` file until it is whole.

The pieces come from a leader's FetchSnapshot responses, or from
``gateway.log.metadata.snapshot_file``. Source: ``FileRawSnapshotWriter``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk, doing
from gateway.log.metadata.snapshot import has_footer, has_header
from gateway.log.segments.batch_index import BatchIndex, Status
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import OpenFile
from kwire.metadata_log.snapshot_id import SnapshotId

#: Suffix of an incomplete snapshot. One that is found at start is removed: a download begins anew.
PART: Final = ".part"
_EVERYTHING: Final = 1 << 62


class SnapshotWriter:
    """The snapshot ``snapshot_id``, invisible to readers before ``freeze``. ``size``: bytes written
    so far.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        snapshot_id: SnapshotId,
        *,
        before_freeze: Callable[[SnapshotId], None] = lambda snapshot_id: None,
    ) -> None:
        """Create an empty ``.part`` file. Raises DiskFailed.

        ``before_freeze`` is called when the snapshot is whole and on disk, before a reader can see
        it.
        """
        self.snapshot_id = snapshot_id
        self._before_freeze = before_freeze
        self.size = 0
        self._path = directory / snapshot_id.file_name
        self._disk = disk
        self._file = disk.open(self._part)
        # An abandoned download of the same snapshot may have left bytes; the leader is asked from
        # position 0.
        disk.truncate(self._file, 0)

    @property
    def _part(self) -> Path:
        return self._path.with_name(self._path.name + PART)

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Append the bytes of the snapshot from ``position`` on.

        Raises ValueError if that is not the end of what was written; DiskFailed, after which the
        same bytes can be written again.
        """
        # A gap would be filled with zeros by the file system, and be found at the end of the
        # download only.
        if position != self.size:
            raise ValueError(
                f"bytes from {position} on do not continue a snapshot of {self.size} bytes"
            )
        self._disk.write(self._file, position, data)
        self.size += len(data)
        assert self._file.size >= self.size, "the file holds every chunk"

    def freeze(self) -> None:
        """Check every byte, sync, and give the file its name; it is durable when this returns.

        Raises DecodeError (``path`` is the file, ``offset`` the byte) for a damaged or incomplete
        snapshot, which is then removed; DiskFailed, and what ``before_freeze`` raises.
        """
        try:
            # Kafka's ``FileRawSnapshotWriter.freeze`` checks nothing: a reader finds a bad byte
            # later.
            if (fault := snapshot_fault(self._part)) is not None:
                self._disk.remove(self._part)
                raise fault
            # Sync before rename: a complete name must never stand for incomplete bytes, because
            # readers trust every file that has one.
            self._disk.sync(self._file)
            # Between sync and rename: once it has its name, the next start drops a log that ends
            # before it.
            self._before_freeze(self.snapshot_id)
        finally:
            self._file.close()
        self._disk.rename(self._part, self._path)
        # Before the caller drops the log for it.
        self._disk.sync_directory(self._path.parent)

    def abandon(self) -> None:
        """Remove what was written. Harmless after ``freeze``, and idempotent. Raises DiskFailed."""
        self._file.close()
        self._disk.remove(self._part)


def snapshot_fault(path: Path) -> DecodeError | None:
    """Return why the file is no complete snapshot: a cut batch, a wrong CRC, no header or footer
    (KIP-630); None if it is one.

    Raises DiskFailed.
    """
    with doing("read", path):
        index = BatchIndex(OpenFile(str(path)), 0)
        index.scan(_EVERYTHING)
        # Every CRC was checked on the way to the end.
        if index.status is not Status.AT_END:
            reason = index.problem.reason if index.problem else "it changes while it is read"
            return DecodeError(reason, path=str(path), offset=index.end, rule="snapshot")
        if not has_header(index):
            return DecodeError(
                "does not begin with a SNAPSHOT_HEADER", path=str(path), offset=0, rule="snapshot"
            )
        if not has_footer(index):
            return DecodeError(
                "no SNAPSHOT_FOOTER: it is not complete",
                path=str(path),
                offset=index.end,
                rule="snapshot",
            )
    return None
