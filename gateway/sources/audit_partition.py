"""This node's partition of the audit topic: its log of changes, served as far as it is on disk.

What a consumer has read is thereby never taken back, and its offset never given to another change, whatever stops the
machine. Written by ``gateway.log.audit_log``; who calls it when is somebody else's business.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from gateway.log.audit_log import AuditLog, AuditSettings, Unsynced, Written
from gateway.log.errors import LogError
from gateway.log.follower import DirectoryFollower
from gateway.log.problem import Problem
from gateway.ports import AUDIT_TOPIC, State
from gateway.sources.chain_partition import EMPTY, ChainPartition
from gateway.sources.clip import clip

#: Below the node's data directory, whatever number the partition has: that may change with the voters.
DIRECTORY: Final = f"{AUDIT_TOPIC}-0"


class AuditPartition(ChainPartition):
    """``gateway.ports.Partition`` over an ``AuditLog``.

    ``append``, ``roll``, ``clean`` and ``reopen`` are for one thread at a time; ``look`` is for one too, and may run beside them.
    """

    def __init__(self, data_dir: Path, settings: AuditSettings, *, cluster_id: str) -> None:
        """Open the log; every segment is looked at once. Raises LogError."""
        super().__init__(cluster_id=cluster_id, log_dir=str(data_dir))
        self._settings = settings
        self._directory = data_dir / DIRECTORY
        self._log = AuditLog(self._directory, settings)
        self.repairs = list(self._log.problems)  #: sentences on what was repaired since the start
        self._follower = DirectoryFollower(str(self._directory), snapshot_prefix=False)
        self._shown = self._log.end_offset  # below it everything is on disk, or was given up
        try:
            self.look()
            self._set_damage_aside()
        except BaseException:
            self._log.close()
            raise
        self.publish(self._shown)

    # --- files --------------------------------------------------------------------------------------------------

    def append(self, changes: list[Written]) -> None:
        """Write all of them; they survive the process. Raises LogError: then it is as before, or has to be opened again."""
        self._log.append(changes)

    def is_full(self, now_ms: int) -> bool:
        """Is it time to ``roll``?"""
        return self._log.is_full(now_ms)

    def roll(self) -> list[str]:
        """Begin the next segment; nothing goes. Raises LogError."""
        self._log.roll()
        return []

    def reopen(self) -> list[str]:
        """Look at the files anew after a failure that left them in doubt; what was repaired. Raises LogError."""
        with contextlib.suppress(LogError):
            self._log.close()
        self._log = AuditLog(self._directory, self._settings)
        self.repairs += self._log.problems
        return self._log.problems

    def look(self) -> None:
        """Read what was written, as the serving side does."""
        while self._follower.step():
            pass

    def clean(self, now_ms: int) -> list[str]:
        """Delete what is too old or too much; the names of what went. Raises LogError."""
        return self._log.clean(now_ms)

    def close(self) -> None:
        """Bring everything to disk, and let go of the files. Raises LogError."""
        self._log.close()

    def _set_damage_aside(self) -> None:
        """A segment in the middle that cannot be read must not hide all that is newer."""
        while (chain := self._follower.chain) is not None and chain.broken is not None:
            names = self._log.set_aside(chain.end_offset)
            assert names, "the damage is in or behind a segment that begins before it"
            self.repairs.append(f"{chain.broken}; set aside: {', '.join(names)}")
            self.look()

    # --- on the loop --------------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The offset of the next change."""
        return self._log.end_offset

    @property
    def is_writable(self) -> bool:
        """Can it be written to as it is? If not, ``reopen`` first."""
        return not self._log.failed

    @property
    def syncs(self) -> bool:
        """Is anything brought to disk on purpose?"""
        return self._settings.fsync

    def to_sync(self) -> Unsynced | None:
        """What ``append`` wrote since; not to be called while it runs. Raises LogError."""
        return self._log.unsynced()

    def publish(self, end_offset: int) -> None:
        """Everything below ``end_offset`` is on disk, and was looked at: clients see it from now on."""
        self._log.synced(end_offset)
        self._shown = max(self._shown, end_offset)
        try:
            shown = clip(self._follower.chain or EMPTY, self._shown)
        except OSError:
            return  # what was shown before goes on; the next look says what is wrong
        old = self.served
        self.show(shown, tell=(shown.start_offset, shown.end_offset) != (old.start_offset, old.end_offset))

    @property
    def state(self) -> State:
        """BROKEN where the files can no longer be read: what was seen before is served."""
        return State.BROKEN if self.problems else State.READY

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files now."""
        found = (self._follower.unreachable, self.served.broken)
        return tuple(one for one in found if one is not None)
