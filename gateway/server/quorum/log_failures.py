"""Decides whether a failed operation on a quorum's log is tried again or ends the process. Touches
no file.
"""

from __future__ import annotations

from gateway.log.files.errors import DiskFailed, LogError, LogFailed, SyncFailed
from gateway.ports.services import SourceStopped
from gateway.sources.quorum_log import BatchesRefused


def may_pass(error: LogError) -> bool:
    """True if another try may succeed.

    A failed fsync is never tried again: the kernel marks the pages clean although they were lost,
    so that a second fsync would succeed without having written them.
    """
    return isinstance(error, DiskFailed | BatchesRefused) and not isinstance(error, SyncFailed)


def stopped_by(error: LogError) -> SourceStopped:
    """The SourceStopped for ``error``, with advice if a restart, which reads the disk again, can
    help.
    """
    again = (
        "; restart the process: it checks the disk when it starts"
        if isinstance(error, SyncFailed | LogFailed)
        else ""
    )
    return SourceStopped(f"{error}{again}")
