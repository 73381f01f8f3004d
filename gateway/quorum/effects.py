"""What a node of the quorum wants done, in this order. Values without behaviour.

Effects on the disk carry a token, one larger each; the driver performs them in order, may sync many
at once, and then reports ``Durable`` with the last token. What must not leave before something is
durable names that token in ``after`` (0 is nothing): nothing is ever on the wire that a crash could
make untrue.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.address import Address
from gateway.snapshot_id import SnapshotId
from kwire.message import Message
from kwire.uuid import ZERO_UUID, Uuid


@dataclass(frozen=True, slots=True)
class ElectionState:
    """What ``quorum-state`` holds. -1: no leader, no vote."""

    epoch: int
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True)
class Persist:
    """Replace ``quorum-state``, atomically. ``kraft_version`` decides its form (1: without the
    voters).
    """

    token: int
    state: ElectionState
    kraft_version: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append whole batches; the first begins at ``base_offset``, which is the log's end. Their CRCs
    were checked.
    """

    token: int
    base_offset: int
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Truncate:
    """Drop everything from ``offset``, a batch's beginning, on: it was never committed."""

    token: int
    offset: int


@dataclass(frozen=True, slots=True)
class BeginSnapshot:
    """Start writing this snapshot; whatever part of another there is can go."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """``data`` belongs at ``position`` of the snapshot's ``size`` bytes. Chunks come in order,
    without gaps.
    """

    position: int
    data: bytes | memoryview
    size: int


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The snapshot begun is whole: check it, make it durable, let the log begin empty at its end;
    ``Installed`` says when.

    Until then, or ``NotInstalled``, the log is what it was.
    """

    token: int
    id: SnapshotId


@dataclass(frozen=True, slots=True)
class AbandonSnapshot:
    """The snapshot begun will not be finished."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class LearnClusterId:
    """Write the cluster's id to ``meta.properties``: it was not known before, and never changes
    from here on.
    """

    token: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the node ``node_id`` (-1: whoever is there) at ``address``; ends in ``Answered`` or
    ``Failed`` with this number.

    ``versions``: the newest that both sides know is asked. After ``timeout_s`` without an answer it
    has failed.
    """

    number: int
    node_id: int
    address: Address
    api_key: int
    versions: range
    timeout_s: float
    request: Callable[[int], Message] = field(repr=False, compare=False)
    after: int = 0


class FailureKind(enum.StrEnum):
    """Why an ask got no answer."""

    UNREACHABLE = "unreachable"  #: no connection, or TLS failed
    CLOSED = "closed"  #: the connection ended before the answer
    TIMEOUT = "timeout"
    UNDECODABLE = "undecodable"  #: an answer came that does not follow the protocol
    UNSUPPORTED_VERSION = "unsupported_version"  #: no common version of the API
    UNAUTHORIZED = "unauthorized"  #: SASL or TLS refused who we are


class Failure(NamedTuple):
    """Why an ask got no answer, and the sentence for people."""

    kind: FailureKind
    text: str


@dataclass(frozen=True, slots=True)
class LogRange:
    """Whole batches from the one that holds ``offset``, as many as fit in ``max_bytes`` but at
    least one, below ``end``.
    """

    offset: int
    end: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """Bytes of a snapshot's file from ``position`` on, ``max_bytes`` at most."""

    id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to request ``number``. ``read``: the driver puts these bytes into its one
    partition, and a snapshot's size.
    """

    number: int
    message: Message
    read: LogRange | SnapshotRange | None = None
    after: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Everything below ``high_watermark`` is committed, and durable here."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Who leads, as far as this node knows: -1 nobody. ``epoch`` never falls."""

    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class Leading:
    """This node was elected. Its controller may act once everything below ``start_offset`` + 1 is
    committed and applied.

    ``start_offset``: of the LEADER_CHANGE record of ``epoch``.
    """

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class NotLeading:
    """This node led ``epoch`` and does not any more: what it proposed and did not see committed has
    an unknown fate.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """Proposal ``number`` was appended: its first record has ``base_offset``, the one behind its
    last ``end_offset``.
    """

    number: int
    base_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Proposal ``number`` was not appended, and never will be. ``not_leader``: another node may
    take it.
    """

    number: int
    not_leader: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Following cannot go on without a person. ``reason``: who, what, what next. Nothing is asked
    any more.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """A line for the log of the server."""

    event: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShutDownComplete:
    """The process may end."""


DiskEffect = (
    Persist
    | Append
    | Truncate
    | BeginSnapshot
    | SnapshotChunk
    | InstallSnapshot
    | AbandonSnapshot
    | LearnClusterId
)
Effect = (
    DiskEffect
    | Send
    | Reply
    | Advance
    | LeaderChanged
    | Leading
    | NotLeading
    | Accepted
    | Refused
    | ShutDownComplete
    | Stop
    | Report
)
