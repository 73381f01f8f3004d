"""Writes the epochs of a log to its ``leader-epoch-checkpoint`` file; the rules about epochs are in
``gateway.base.leader_epochs``.

Follows Kafka's ``LeaderEpochFileCache``, which keeps both in one class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gateway.base.leader_epochs import LeaderEpochs
from gateway.log.files.disk import Disk
from gateway.log.files.leader_epoch_checkpoint import FILE_NAME, format_leader_epochs


class EpochCache(LeaderEpochs):
    """The epochs of a log on disk. ``saved``: the entries that the file holds, None where they are
    not known.
    """

    __slots__ = ("_saved",)

    def __init__(
        self,
        entries: Iterable[tuple[int, int]] = (),
        *,
        saved: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        super().__init__(entries)
        self._saved = None if saved is None else tuple(saved)

    @property
    def saved(self) -> Sequence[tuple[int, int]]:
        """The entries that the file holds, none where they are not known."""
        return self._saved or ()

    def save(self, disk: Disk, directory: Path) -> None:
        """Write the file unless it holds these entries already. Raises DiskFailed."""
        # Epochs change with elections, and appends come much more often: most calls write nothing.
        if self._saved is not self._entries and self._saved != self._entries:
            disk.replace(directory / FILE_NAME, format_leader_epochs(self._entries))
        # After the disk: a failed write is repeated with the next call.
        self._saved = self._entries
