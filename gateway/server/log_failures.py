"""Decides what follows from a failure of a quorum's log: another try, or the end of the process.
Touches no file.
"""

from __future__ import annotations

from gateway.log.errors import DiskFailed, LogError, LogFailed, SyncFailed
from gateway.ports import SourceStopped
from gateway.sources.quorum_log import BatchesRefused


def may_pass(error: LogError) -> bool:
    """Is another try worth it? Not after a failed sync: the kernel has marked the lost pages clean
    by then.
    """
    return isinstance(error, DiskFailed | BatchesRefused) and not isinstance(error, SyncFailed)


def stopped_by(error: LogError) -> SourceStopped:
    """The reason why the log cannot be written any further."""
    again = (
        "; start again: what is on disk is then looked at anew"
        if isinstance(error, SyncFailed | LogFailed)
        else ""
    )
    return SourceStopped(f"{error}{again}")
