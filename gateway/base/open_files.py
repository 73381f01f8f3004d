"""Raises the limit of open files of this process, as the JVM does for Kafka (``MaxFDLimit``)."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sys
from typing import Final

#: File descriptors that are left for what opens a few later: segments of logs, snapshots and
#: connections to other nodes, and a connection that makes way for another one and is not closed yet
#: when the other one is accepted.
FILES_RESERVED: Final = 128


def open_files_limit(wanted: int) -> int:
    """Return how many files the process may have open, after the limit was raised to ``wanted``, or
    as far as the process may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        raised = wanted if hard == unlimited else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == unlimited else soft


def open_files() -> int:
    """Return the number of file descriptors of this process; 0 where the system has no /proc."""
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return 0


def make_room(more: int, what: str, path: str) -> None:
    """Raise the limit for so many files more, which are ``what`` in ``path``. Raises OSError if it
    stays too low.
    """
    if more <= FILES_RESERVED:
        return
    wanted = open_files() + more + FILES_RESERVED
    limit = open_files_limit(wanted)
    if limit < wanted:
        reason = (
            f"{more} {what} to open, and the process may have {limit} files open: raise that limit"
            f" to {wanted} (ulimit -n, LimitNOFILE of systemd)"
        )
        raise OSError(errno.EMFILE, reason, path)
