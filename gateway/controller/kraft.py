"""Defines the controller's view of its quorum: the kraft.version, and whether it can rise
(KIP-853).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class KRaft(Protocol):
    """The quorum of an active controller (``KRaftVersionAccessor``)."""

    @property
    def kraft_version(self) -> int:
        """0: the configuration names the voters. 1: the log does. Counts as soon as it is appended,
        like every change of voters.
        """

    def upgrade_refusal(self, version: int) -> str | None:
        """Return why the quorum refuses to raise it to ``version`` now; None if it does not."""


@dataclass(frozen=True, slots=True)
class StaticKRaft:
    """A quorum whose kraft.version cannot rise."""

    kraft_version: int = 0

    def upgrade_refusal(self, version: int) -> str | None:
        """As in :class:`KRaft`."""
        # For tests and for tools without a quorum: nothing is there that could write the record.
        return f"Invalid upgrade of kraft.version from version {self.kraft_version} to {version}"
