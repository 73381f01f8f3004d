"""What can go wrong with a log that this process writes. Each text says which file, what is wrong, and what to do."""

from __future__ import annotations


class LogError(Exception):
    """Base class of everything that :mod:`gateway.log.local_log` raises on purpose, besides DecodeError for bytes of others."""


class LogLocked(LogError):
    """Another process, or this one, has the directory open."""


class LogDamaged(LogError):
    """What is on disk contradicts what was known to be there; nothing was changed.

    ``file`` is where, ``position`` the byte in it (-1: the file as a whole).
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
    """The operating system refused a change of a file (ENOSPC, EIO, EROFS ...). ``errno`` is its reason, ``file`` the file."""

    def __init__(self, doing: str, file: str, error: OSError, advice: str) -> None:
        self.file = file
        self.errno = error.errno
        self.doing = doing
        super().__init__(f"cannot {doing} {file}: {error.strerror or error}; {advice}")


class SyncFailed(DiskFailed):
    """An fsync failed: nobody knows any more which of the last writes are on disk, and asking again would not tell."""


class LogFailed(LogError):
    """An earlier failure left the files in a state that is not known: close the log and open it again."""


class BelowHighWatermark(LogError):
    """Records that the quorum has committed would be dropped. Never done: either the quorum lost data, or it is another one."""


class SnapshotNotNewer(LogError):
    """A snapshot that is not beyond the log's end cannot take the log's place (``KafkaMetadataLog.truncateToLatestSnapshot``)."""


class NotFormatted(LogError):
    """Nobody has said yet to which cluster and node the directory belongs (``kwire format``, ``kafka-storage format``)."""


class AlreadyFormatted(LogError):
    """There is something in the directory that formatting it would make somebody else's."""


class WrongNode(LogError):
    """The directory belongs to another node, or another cluster."""


class Forgotten(LogError):
    """What this voter voted for is missing or out of date: with another vote in the same epoch it could elect two leaders."""


class ElectionGoesBack(LogError):
    """An epoch below the one on disk, or another leader or vote in the same epoch: never written, whoever asks for it."""
