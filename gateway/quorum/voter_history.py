"""Keeps the voter sets and kraft.versions of the log by offset (KIP-853).

A KRAFT_VOTERS or KRAFT_VERSION record is in force when it is appended, and ends when it is
truncated. It does not decode records. Follows ``VoterSetHistory`` and ``KRaftVersionHistory``
(``KRaftControlRecordStateMachine``).
"""

from __future__ import annotations

from gateway.quorum.settings import RaftSettings, Stored
from gateway.quorum.voter_set import VoterNode, VoterSet
from kwire.metadata_log.snapshot_id import SnapshotId


class VoterHistory:
    """``voters`` and ``kraft_version`` are the ones in force; ``offset`` is that of the
    KRAFT_VOTERS record, -1 without one.

    ``previous``: the voters before that record. ``is_voter``: whether this node is in ``voters``.
    """

    __slots__ = (
        "_me",
        "_sets",
        "_static",
        "_versions",
        "is_voter",
        "kraft_version",
        "offset",
        "previous",
        "voters",
    )

    def __init__(self, settings: RaftSettings, stored: Stored) -> None:
        self._static = VoterSet.of(
            VoterNode(id, endpoints={settings.listener: address})
            for id, address in settings.static_voters.items()
        )
        self._me = settings.node_id, settings.directory_id
        self._sets = list(stored.voters)
        self._versions = list(stored.kraft_versions)
        # Seeded bug in tests/sim: ``the_configuration_wins_after_a_restart``.
        self.voters = self.previous = self._static
        self.kraft_version = 0
        self.offset = -1
        self.is_voter = False
        self._settle()

    def add_voters(self, offset: int, voters: VoterSet, high_watermark: int) -> None:
        """Add the KRAFT_VOTERS record at ``offset``, and forget those before the last committed
        one: no truncation makes them count again.
        """
        assert not self._sets or offset > self._sets[-1][0], "voter sets are not appended in order"
        self._sets.append((offset, voters))
        # A voter may update its endpoints any number of times.
        while self._sets[1:] and self._sets[1][0] < high_watermark:
            del self._sets[0]
        self._settle()

    def add_version(self, offset: int, kraft_version: int) -> None:
        """Add the KRAFT_VERSION record at ``offset``."""
        assert not self._versions or offset >= self._versions[-1][0], (
            "versions are not appended in order"
        )
        self._versions.append((offset, kraft_version))
        self._settle()

    def truncate_to(self, offset: int) -> None:
        """Drop the records from ``offset`` on; the ones before them are in force again."""
        # The record at ``offset`` goes too: a truncation drops everything from there on.
        self._sets = [entry for entry in self._sets if entry[0] < offset]
        self._versions = [entry for entry in self._versions if entry[0] < offset]
        self._settle()

    def truncate_to_snapshot(
        self, id: SnapshotId, voters: VoterSet | None, kraft_version: int
    ) -> None:
        """Restart at the end of a snapshot, with the voters and kraft.version of its first
        batch.
        """
        # Under the offset of the last record that the snapshot replaces: no truncation goes below
        # the snapshot's end, so none drops these entries. Without voters in the snapshot the quorum
        # is static: the configuration counts again.
        self._sets = [(id.end_offset - 1, voters)] if voters is not None else []
        self._versions = [(id.end_offset - 1, kraft_version)]
        self._settle()

    def _settle(self) -> None:
        self.kraft_version = self._versions[-1][1] if self._versions else 0
        # The last record that was appended counts, committed or not (KIP-853). Seeded bug in
        # tests/sim: ``an_upgrade_counts_when_committed``.
        self.offset, self.voters = self._sets[-1] if self._sets else (-1, self._static)
        # For a node that a record which is not committed yet removes: it may still have to
        # campaign.
        self.previous = self._sets[-2][1] if len(self._sets) > 1 else self._static
        self.is_voter = self.voters.has(*self._me)
