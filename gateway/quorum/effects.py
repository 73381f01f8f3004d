"""What an observer says: whom to ask what, how long to rest, and what to do with an answer. Values without behaviour."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.address import Address
from gateway.snapshot_id import SnapshotId
from kwire.message import Message


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask ``address`` for ``request(version)``, ``version`` being the newest of ``versions`` that both sides know.

    ``node_id``: whom we expect there, -1 when nobody in particular. ``timeout_s``: after so long the request has failed.
    ``number``: no two asks of an observer have the same.
    """

    number: int
    address: Address
    node_id: int
    api_key: int
    versions: range
    timeout_s: float
    request: Callable[[int], Message] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to ask before ``until`` (monotonic seconds; infinite after a :class:`Stop`)."""

    until: float


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
class Append:
    """Append ``records``: whole batches, the first at the log's end. CRCs are the log's to check."""

    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Truncate:
    """Drop everything from ``offset`` on: it was never committed (KIP-595, diverging epoch)."""

    offset: int


@dataclass(frozen=True, slots=True)
class BeginSnapshot:
    """Start writing this snapshot; whatever part of another there is can go."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """``data`` belongs at ``position`` of the snapshot's ``size`` bytes. Chunks come in order, without gaps."""

    position: int
    data: bytes | memoryview
    size: int


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """The snapshot is whole: check it, make it durable, and let the log begin empty at its end."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class AbandonSnapshot:
    """The snapshot begun will not be finished: what there is of it can go."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class Advance:
    """Everything below ``high_watermark`` is committed and in our log. It only ever grows."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Remember:
    """Make epoch and leader (-1: none yet) durable (``quorum-state``) before anything else of that epoch happens."""

    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class LearnClusterId:
    """The cluster's id, known from now on: to be kept, and compared for ever after."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Following cannot go on without a person. ``reason``: who, what, what next. Nothing is asked any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tell:
    """A line for the log of the server."""

    event: str
    fields: Mapping[str, Any]


Effect = (
    Append
    | Truncate
    | BeginSnapshot
    | SnapshotChunk
    | InstallSnapshot
    | AbandonSnapshot
    | Advance
    | Remember
    | LearnClusterId
    | Stop
    | Tell
)
