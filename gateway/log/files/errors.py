"""Defines the errors of a log that this process writes. Each text names the file, the fault and the
remedy.
"""

from __future__ import annotations

import errno
from typing import Final

#: Numbers of errors that say nothing of the disk, or that end when there is space.
_PASSING: Final = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)
)


class LogError(Exception):
    """Base class of the errors that :mod:`gateway.log.metadata.local_log` raises, besides
    DecodeError for received bytes.
    """


class LogLocked(LogError):
    """Another process, or this one, has the directory open."""


class LogDamaged(LogError):
    """The files contradict what was known to be on disk; nothing was changed.

    ``file`` is the file, ``position`` the byte in it (-1: the file as a whole).
    """

    def __init__(self, file: str, position: int, reason: str, advice: str) -> None:
        self.file = file
        self.position = position
        self.reason = reason
        self.advice = advice
        super().__init__(file, position, reason, advice)

    def __str__(self) -> str:
        where = f"{self.file} at byte {self.position}" if self.position >= 0 else self.file
        return f"{where}: {self.reason}; {self.advice}"


class DiskFailed(LogError):
    """The operating system refused a change of a file (ENOSPC, EIO, EROFS ...), given in ``errno``
    and ``file``.
    """

    def __init__(self, doing: str, file: str, error: OSError, advice: str) -> None:
        self.file = file
        self.errno = error.errno
        self.doing = doing
        super().__init__(f"cannot {doing} {file}: {error.strerror or error}; {advice}")

    @property
    def is_lasting(self) -> bool:
        """Whether the disk has failed, rather than being full or the process having too many files
        open.
        """
        return self.errno not in _PASSING


class SyncFailed(DiskFailed):
    """An fsync failed: which of the last writes are on disk is unknown, and a second fsync would
    not tell.
    """


class LogFailed(LogError):
    """An earlier failure left the files in an unknown state: close the log and open it again."""


class BelowHighWatermark(LogError):
    """Committed records would be dropped. This is refused: the quorum lost data, or it is another
    quorum.
    """


class SnapshotNotNewer(LogError):
    """A snapshot that is not beyond the log's end cannot replace the log
    (``KafkaMetadataLog.truncateToLatestSnapshot``).
    """


class NotFormatted(LogError):
    """The directory has no cluster id and node id yet (``kwire format``, ``kafka-storage
    format``).
    """


class AlreadyFormatted(LogError):
    """The directory holds the files of a node, which formatting would replace."""


class WrongNode(LogError):
    """The directory belongs to another node, or another cluster."""


class QuorumStateLost(LogError):
    """This voter's vote is missing or out of date: a second vote in the same epoch could elect two
    leaders.
    """


class ElectionGoesBack(LogError):
    """An epoch below the one on disk, or another leader or vote in the same epoch: never
    written.
    """
