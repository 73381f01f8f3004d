"""Where each leader epoch begins in a log: ``LeaderEpochFileCache``, written down in ``leader-epoch-checkpoint``."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from pathlib import Path

from gateway.log.disk import Disk
from gateway.log.leader_epoch_checkpoint import FILE_NAME, format_leader_epochs


class EpochCache:
    """(epoch, start offset) of each epoch, oldest first. ``saved``: what the file holds, None if that is not known."""

    def __init__(self, entries: Iterable[tuple[int, int]] = (), *, saved: Sequence[tuple[int, int]] | None = None) -> None:
        self._entries = list(entries)
        self._saved = None if saved is None else list(saved)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """Every epoch known, with its first offset."""
        return tuple(self._entries)

    @property
    def latest(self) -> int | None:
        """The newest epoch, None where the log holds no batch."""
        return self._entries[-1][0] if self._entries else None

    def assign(self, epoch: int, offset: int) -> None:
        """A batch of ``epoch`` begins at ``offset``; told once an epoch or as often as there are batches."""
        if not self._entries or epoch > self._entries[-1][0]:
            self._entries.append((epoch, offset))

    def truncate_from_end(self, offset: int) -> None:
        """The log now ends at ``offset``: epochs that began there or later are forgotten."""
        while self._entries and self._entries[-1][1] >= offset:
            self._entries.pop()

    def truncate_from_start(self, offset: int) -> None:
        """The log now starts at ``offset``: the epoch that holds it begins there."""
        at = bisect.bisect_right(self._entries, offset, key=lambda entry: entry[1])
        if at:
            self._entries[:at] = [(self._entries[at - 1][0], offset)]

    def clear(self) -> None:
        """The log is empty."""
        self._entries.clear()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """``LeaderEpochFileCache.endOffsetFor``: the largest known epoch not above ``epoch``, and where it ends.

        (-1, -1) for an epoch newer than all and for a log without batches; for one older than all, itself with the start
        of the first known one.
        """
        entries = self._entries
        if epoch < 0 or not entries or epoch > entries[-1][0]:
            return -1, -1
        at = bisect.bisect_right(entries, epoch, key=lambda entry: entry[0])
        if at == 0:
            return epoch, entries[0][1]
        return entries[at - 1][0], entries[at][1] if at < len(entries) else log_end_offset

    def save(self, disk: Disk, directory: Path) -> None:
        """Write the file if it does not say so already. Raises DiskFailed."""
        if self._saved != self._entries:
            disk.replace(directory / FILE_NAME, format_leader_epochs(self._entries))
            self._saved = list(self._entries)
