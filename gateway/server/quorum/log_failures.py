"""Decides whether a failed operation on a quorum's log is tried again or ends the process. Touches
no file.
"""

from __future__ import annotations

from typing import Final

from gateway.log.files.errors import DiskFailed, LogError, LogFailed, SyncFailed
from gateway.ports.services import SourceStopped
from gateway.sources.quorum_log_policies import BatchesRefused

#: Advice for the operator where a restart, which reads the disk again, can help.
RESTART: Final = "restart the process: it checks the disk when it starts"


def may_pass(error: LogError) -> bool:
    """True if another try may succeed.

    A failed fsync is never tried again: the kernel marks the pages clean although they were lost,
    so that a second fsync would succeed without having written them.
    """
    return isinstance(error, DiskFailed | BatchesRefused) and not isinstance(error, SyncFailed)


def stopped_by(error: LogError) -> SourceStopped:
    """The SourceStopped for ``error``, with advice if a restart can help."""
    again = f"; {RESTART}" if isinstance(error, SyncFailed | LogFailed) else ""
    return SourceStopped(f"{error}{again}")
