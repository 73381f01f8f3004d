"""Describes one copy of a metadata log: whose it is, how far it reaches, and what is damaged in it.

It reads no file, and does not compare copies.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.log.files.problem import Problem
from gateway.quorum.voter_set import VoterSet
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import Uuid


class Election(NamedTuple):
    """The content of ``quorum-state``. ``version`` is its data version: 0 alone has voters."""

    version: int
    epoch: int
    leader_id: int
    voted_id: int
    voter_ids: tuple[int, ...] = ()


class Position(NamedTuple):
    """The place of a log's end, in the order of Raft's votes: the epoch counts before the
    offset.
    """

    epoch: int
    end_offset: int


#: The end of a log without a record.
NOTHING: Final = Position(-1, 0)


class Marks:
    """Base offset, epoch and CRC of each batch of a log, in offset order."""

    __slots__ = ("crcs", "epochs", "offsets")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.epochs = array("i")
        self.crcs = array("I")

    def add(self, base_offset: int, epoch: int, crc: int) -> None:
        """Add the next batch."""
        self.offsets.append(base_offset)
        self.epochs.append(epoch)
        self.crcs.append(crc)

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(slots=True)
class Identity:
    """The owner of a copy, as ``meta.properties`` names it; None for what is not known."""

    node_id: int | None = None
    directory_id: Uuid | None = None
    cluster_id: str | None = None
    topic_id: Uuid | None = None
    #: The copy of a gateway that observes a quorum: its node id is of its own choice.
    is_gateway: bool = False


@dataclass(slots=True)
class Contents:
    """The facts in the state at a copy's end; a copy whose log leads to no state has none."""

    metadata_version: int
    broker_ids: tuple[int, ...]
    controller_ids: tuple[int, ...]


@dataclass(slots=True)
class Copy:
    """One copy, up to its last whole batch. Offsets are exclusive where their names say end.

    ``voters`` and ``kraft_versions``: (offset of the record, value), ascending. ``epochs_seen``:
    the highest epoch in any file of the copy, also behind damage.
    """

    where: str
    is_snapshot: bool = False
    identity: Identity = field(default_factory=Identity)
    start_offset: int = 0
    end: Position = NOTHING
    marks: Marks = field(default_factory=Marks)
    snapshot: SnapshotId | None = None
    #: All whole snapshots, and (name, bytes up to the last whole batch) of each segment.
    snapshots: tuple[SnapshotId, ...] = ()
    segments: tuple[tuple[str, int], ...] = ()
    voters: tuple[tuple[int, VoterSet], ...] = ()
    kraft_versions: tuple[tuple[int, int], ...] = ()
    election: Election | None = None
    high_watermark: int = 0
    last_timestamp: int | None = None
    contents: Contents | None = None
    epochs_seen: int = -1
    damage: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it has no record."""
        return self.end.end_offset == 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing in it is damaged."""
        return not self.damage

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version: 0 of a static quorum."""
        return self.kraft_versions[-1][1] if self.kraft_versions else 0

    @property
    def newest_voters(self) -> VoterSet | None:
        """The voters in the newest record of them; None in a static quorum."""
        return self.voters[-1][1] if self.voters and self.kraft_version > 0 else None

    def add_voters(self, offset: int, record: VotersRecord, file: str, position: int = -1) -> None:
        """Add a KRAFT_VOTERS record of a file, or the damage that it is."""
        try:
            self.voters += ((offset, VoterSet.of_record(record)),)
        except ValueError as error:
            reason = f"voters at offset {offset}: {error}"
            self.damage.append(Problem(file, position, reason))

    def see_epoch(self, epoch: int) -> None:
        """Note an epoch that a file of the copy names."""
        self.epochs_seen = max(self.epochs_seen, epoch)
