"""What the controller has to know of the quorum that elected it: its kraft.version, and whether
that can rise (KIP-853).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class KRaft(Protocol):
    """The quorum, as its leader sees it (``KRaftVersionAccessor``)."""

    @property
    def kraft_version(self) -> int:
        """0: voters by configuration. 1: by the log. As appended, committed or not."""

    def upgrade_refusal(self, version: int) -> str | None:
        """Why this leader would not raise it to ``version`` now; None if it would."""


@dataclass(frozen=True, slots=True)
class StaticKRaft:
    """A quorum whose kraft.version cannot rise."""

    kraft_version: int = 0

    def upgrade_refusal(self, version: int) -> str | None:
        """As in :class:`KRaft`."""
        return f"Invalid upgrade of kraft.version from version {self.kraft_version} to {version}"
