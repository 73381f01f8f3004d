"""Defines the values that a store hands to the core at its start. They hold no rules."""

from __future__ import annotations

from typing import NamedTuple

from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import ZERO_UUID, Uuid


class Election(NamedTuple):
    """The content of ``quorum-state``. -1: no leader, no vote."""

    epoch: int
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid = ZERO_UUID


class StoredFacts(NamedTuple):
    """The content of the disk at the start of a node, under the names of
    ``gateway.quorum.settings.Stored``.

    Offsets are exclusive where their names say end. ``voters`` and ``kraft_versions``: (offset of
    the record, value) ascending, -1 for those of formatting.
    """

    election: Election
    start_offset: int
    start_epoch: int
    end_offset: int
    epochs: tuple[tuple[int, int], ...]
    snapshots: tuple[SnapshotId, ...]
    high_watermark: int
    voters: tuple[tuple[int, VotersRecord], ...]
    kraft_versions: tuple[tuple[int, int], ...]
