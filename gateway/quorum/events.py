"""What happens to a node of the quorum: requests and answers of peers, time, a disk that is done,
records to be appended.

Values without behaviour. Each goes into ``Raft.step`` together with the moment at which it
happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.quorum.effects import Failure
from gateway.quorum.voter_set import VoterSet
from gateway.snapshot_id import SnapshotId
from kwire.message import Message


@dataclass(frozen=True, slots=True)
class Requested:
    """A peer's request on a controller listener, decoded and allowed. It is answered by one
    ``Reply`` with its ``number``.

    Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, DescribeQuorum, AddRaftVoter,
    RemoveRaftVoter, UpdateRaftVoter. ``listener``: the name of the one it came in by; endpoints in
    the answer are those of the same name.
    """

    number: int
    message: Message
    version: int
    listener: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Nobody waits for the answer to request ``number`` any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the ``Send`` of that number, decoded at ``version``. At most one comes, maybe
    long after it was given up.
    """

    number: int
    message: Message
    version: int


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer came to the ``Send`` of that number."""

    number: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Tick:
    """``Raft.deadline`` has passed."""


@dataclass(frozen=True, slots=True)
class Durable:
    """Every effect on the disk up to the one with this token is done and synced."""

    token: int


@dataclass(frozen=True, slots=True)
class Propose:
    """Records of this node's controller, to be appended by it as the leader of ``epoch``.

    ``batches``: each is one batch, all of it or nothing after a crash, of metadata record values
    (frame included). Answered by ``Accepted``, with the offsets, or by ``Refused``. Committed when
    the high watermark is beyond them. ``kraft_version``: what kraft.version has to be from there on
    (KIP-853); where it is less, a batch that makes it so and says who votes goes before the others.
    """

    number: int
    epoch: int
    batches: Sequence[Sequence[bytes]]
    kraft_version: int | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """The snapshot of the last ``InstallSnapshot`` is in place and durable: the log is empty and
    begins at its end.

    ``voters`` and ``kraft_version`` as its head says; None and 0 where it does not.
    """

    id: SnapshotId
    voters: VoterSet | None
    kraft_version: int


@dataclass(frozen=True, slots=True)
class NotInstalled:
    """The snapshot of the last ``InstallSnapshot`` was refused (a CRC, no footer): log and
    snapshots are as before.
    """

    id: SnapshotId
    reason: str


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """A snapshot of committed records is complete on this node's disk."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Old segments and snapshots were deleted: where the log begins now, and which snapshots there
    still are.
    """

    start_offset: int
    snapshots: tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class Resign:
    """The controller of this node cannot lead ``epoch`` any longer (``KafkaRaftClient.resign``).
    Nothing if it does not.
    """

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShutDown:
    """The process is to end. A leader hands over first; ``ShutDownComplete`` says when, after
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
    | ShutDown
)
