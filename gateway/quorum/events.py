"""Defines the events that drive the core: requests, responses, time, the disk, and proposals.

Values without behaviour. The driver passes each to ``Raft.step`` with the time at which it
happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.quorum.effects import Failure
from gateway.quorum.voter_set import VoterSet
from kwire.message import Message
from kwire.metadata_log.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class Requested:
    """A peer's request on a controller listener, decoded and authorized.

    The core answers it with one ``Reply`` of the same ``number``. The requests are Vote,
    BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, DescribeQuorum, AddRaftVoter,
    RemoveRaftVoter and UpdateRaftVoter. ``listener`` is the name of the listener that it came by;
    endpoints in the response are those of the same name.
    """

    number: int
    message: Message
    version: int
    listener: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client of request ``number`` has disconnected or given up."""

    number: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The response to the ``Send`` of that number, decoded at ``version``.

    At most one comes, perhaps long after the core has given the request up.
    """

    number: int
    message: Message
    version: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The ``Send`` of that number ended without a response."""

    number: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Tick:
    """``Raft.deadline`` has passed."""


@dataclass(frozen=True, slots=True)
class Durable:
    """Every effect on the disk up to this token is performed and synced."""

    token: int


@dataclass(frozen=True, slots=True)
class Propose:
    """Records of this node's controller, to be appended if it leads ``epoch``.

    ``batches``: each becomes one batch, which survives a crash as a whole or not at all, of
    metadata record values (frame included). The core answers with ``Accepted`` or ``Refused``; the
    records are committed once the high watermark is beyond them. ``kraft_version``: the
    kraft.version that the records need (KIP-853); if it is lower, a batch with that version and the
    voters goes first.
    """

    number: int
    epoch: int
    batches: Sequence[Sequence[bytes]]
    kraft_version: int | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """The snapshot of the last ``InstallSnapshot`` is durable, and the log begins, empty, at its
    end.

    ``voters`` and ``kraft_version``: from its first batch; None and 0 if they are not in it.
    """

    id: SnapshotId
    voters: VoterSet | None
    kraft_version: int


@dataclass(frozen=True, slots=True)
class NotInstalled:
    """The snapshot of the last ``InstallSnapshot`` was bad (a CRC, no footer), or the disk cannot
    hold the one whose chunks come. Nothing changed.
    """

    id: SnapshotId
    reason: str


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """A snapshot of committed records is complete on this node's disk."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Old segments and snapshots were deleted: the new log start, and the remaining snapshots."""

    start_offset: int
    snapshots: tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class Resign:
    """The controller of this node gives up ``epoch`` (``KafkaRaftClient.resign``). Ignored if the
    node does not lead it.
    """

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ImageLacks:
    """The image of this node lacks ``what`` of the committed log, nothing if that is None.

    A node whose image is not the whole log cannot decide on it: it does not campaign, and resigns
    if it leads. It goes on voting, following and serving the log. A controller of Kafka ends in
    this case (``fatalFaultHandler``).
    """

    what: str | None


@dataclass(frozen=True, slots=True)
class ShutDown:
    """The process is shutting down. A leader hands over first; ``ShutDownComplete`` comes after
    ``timeout_s`` at the latest.
    """

    timeout_s: float


Event = (
    Requested
    | Cancelled
    | Answered
    | Failed
    | Tick
    | Durable
    | Propose
    | Installed
    | NotInstalled
    | SnapshotWritten
    | Cleaned
    | Resign
    | ImageLacks
    | ShutDown
)
