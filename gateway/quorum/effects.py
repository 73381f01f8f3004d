"""Defines the effects that the core returns, to be performed in order. Values without behaviour.

Effects on the disk carry a token, one larger each; the driver performs them in order, may sync many
at once, and then reports ``Durable`` with the last token. A message that must not leave before
something is durable names that token in ``after`` (0: none), so that no message is ever on the wire
that a crash could make untrue.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.base.address import Address
from kwire.message import Message
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import ZERO_UUID, Uuid


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The content of ``quorum-state`` (``QuorumStateData``). -1: no leader, no vote."""

    epoch: int
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True)
class Persist:
    """Replace ``quorum-state`` atomically. ``kraft_version`` decides its version (1: no voters)."""

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
    """Drop every record from ``offset`` on, where a batch begins. None of them was committed."""

    token: int
    offset: int


@dataclass(frozen=True, slots=True)
class BeginSnapshot:
    """Begin to write this snapshot; an unfinished one before it can be removed."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """``data`` belongs at ``position`` of the snapshot's ``size`` bytes. Chunks come in order,
    without gaps.
    """

    position: int
    data: bytes | memoryview
    size: int
    token: int = 0


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """Check the snapshot, make it durable, and restart the log, empty, at its end.

    The driver answers with ``Installed`` or ``NotInstalled``. Until then the log is unchanged.
    """

    token: int
    id: SnapshotId


@dataclass(frozen=True, slots=True)
class AbandonSnapshot:
    """Remove the unfinished snapshot."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class LearnClusterId:
    """Write the cluster's id, unknown before, to ``meta.properties``. It never changes again."""

    token: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to the node ``node_id`` (-1: any node) at ``address``.

    It ends in ``Answered`` or ``Failed`` with this number, in ``Failed`` after ``timeout_s`` at the
    latest. ``request`` builds the message at the newest of ``versions`` that both sides support.
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
    """Why a request got no response."""

    UNREACHABLE = "unreachable"  #: no connection, or TLS failed
    REFUSED = "refused"  #: no process listens at the address
    CLOSED = "closed"  #: the connection ended before the response
    TIMEOUT = "timeout"
    UNDECODABLE = "undecodable"  #: the response does not follow the protocol
    UNSUPPORTED_VERSION = "unsupported_version"  #: no common version of the API
    UNAUTHORIZED = "unauthorized"  #: SASL or TLS refused this node's credentials


class Failure(NamedTuple):
    """Why a request got no response: the kind, and a sentence for the operator."""

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
    """The response to request ``number``. ``read``: the bytes that the driver puts into its one
    partition; of a snapshot, the size of the file too.
    """

    number: int
    message: Message
    read: LogRange | SnapshotRange | None = None
    after: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Everything below ``high_watermark`` is committed, and durable on this node."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The leader that this node knows, -1 for none. ``epoch`` never decreases."""

    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class Leading:
    """This node was elected. ``start_offset`` is that of the LEADER_CHANGE record of ``epoch``.

    Its controller may act once everything below ``start_offset`` + 1 is committed and applied.
    """

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class NotLeading:
    """This node no longer leads ``epoch``. Its uncommitted proposals may be committed or lost."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """Proposal ``number`` was appended, from ``base_offset`` to ``end_offset`` (exclusive)."""

    number: int
    base_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Proposal ``number`` was not appended, and never will be. ``not_leader``: another node may
    accept it.
    """

    number: int
    not_leader: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Following needs an operator, so no request is sent any more. ``reason`` names the node, the
    fault and the remedy.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """An event for the server's log; its names are in ``gateway.server.logging.log_events``."""

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
