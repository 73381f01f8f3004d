"""What handlers may ask of the rest of the house, as Protocols. No trio, no files: values in, values out.

A *source* provides the metadata partition; the group coordinator and the authorizer are asked through theirs. Handlers
are written against these and never see who stands behind.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.cluster.image import Image
    from kwire.message import Message
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse

#: What clients see: topic name and its one partition.
TOPIC_NAME = "__cluster_metadata"
PARTITION = 0
#: Who changed what: the topic of changes that the nodes of our own quorum keep.
AUDIT_TOPIC: Final = "__cluster_metadata_audit"
#: Its id, a3dpcmUAgACAAAAAAAAAAQ: of version 8 (RFC 9562, one's own), which no id that a controller makes by chance can be.
AUDIT_TOPIC_ID: Final = Uuid(b"kwire\0\x80\0\x80\0\0\0\0\0\0\x01")


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of an open file that a plaintext connection can hand to ``sendfile``: descriptor, position, length."""

    fd: int
    position: int
    length: int


#: Record bytes of an answer: ranges of files, or bytes already in memory, in order.
Chunk = FileRange | bytes | memoryview


@dataclass(frozen=True, slots=True)
class Read:
    """The outcome of a read: whole batches only, in offset order.

    ``chunks`` joined are the record bytes, ``size`` their number. The descriptors stay open until ``release`` is called
    (once, by whoever sent the answer).
    """

    chunks: Sequence[Chunk]
    size: int
    release: Callable[[], None]


class Spliced:
    """Stands in a response's ``records`` field for the bytes of a :class:`Read` that Python never touches.

    A handler sets ``records=Spliced(read)``; ``encode_parts`` writes ``len()`` and passes the object through; the connection
    puts the chunks there (``sendfile`` where it can) and releases the read once it is sent or the connection is gone.
    """

    __slots__ = ("read",)

    def __init__(self, read: Read) -> None:
        self.read = read

    def __len__(self) -> int:
        return self.read.size


@dataclass(frozen=True, slots=True)
class OffsetAt:
    """An offset with the timestamp (ms since the epoch) and leader epoch of its record; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetOutOfRange(Exception):
    """A read began below the log start or above the high watermark."""


class SourceStopped(Exception):
    """A source cannot be followed any further without a person; the text says why, and what to do."""


class State(enum.Enum):
    """Whether the partition can be served: LOADING answers retriable errors, never offset 0."""

    LOADING = "loading"
    READY = "ready"
    STALE = "stale"  #: committed data is served, but the source is out of reach
    BROKEN = "broken"  #: a corrupt batch ends the log; what lies before it is served


class Partition(Protocol):
    """The metadata partition. All methods are called on the event loop, return at once and never do unbounded work."""

    @property
    def state(self) -> State: ...
    @property
    def cluster_id(self) -> str: ...
    @property
    def leader_epoch(self) -> int:
        """Epoch of the newest batch (or of the leader, where one is known)."""
        ...

    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int:
        """One past the last offset that clients may see. Goes back only when a followed directory is truncated."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, for DescribeLogDirs."""
        ...

    @property
    def log_dir(self) -> str: ...

    def read(self, offset: int, max_bytes: int) -> Read:
        """Whole batches from the one that holds ``offset``; at least one below the high watermark, even beyond ``max_bytes``.

        Empty at the high watermark. Raises OffsetOutOfRange.
        """
        ...

    def bytes_available(self, offset: int, limit: int) -> int:
        """Bytes a read at ``offset`` would give, counted no further than ``limit``: for a Fetch's min_bytes."""
        ...

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        """The first record with a timestamp >= ``timestamp`` (ms), or None."""
        ...

    def max_timestamp(self) -> OffsetAt | None:
        """The record with the largest timestamp, the first of them; None in an empty log."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch <= ``epoch``, its end offset), (-1, -1) if there is none (OffsetForLeaderEpoch's rule)."""
        ...

    def epoch_at(self, offset: int) -> int:
        """Leader epoch of the batch that holds ``offset``, -1 if outside the log."""
        ...

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` on the event loop whenever the high watermark or log start moves; returns the unsubscriber."""
        ...


class Authorizer(Protocol):
    """Kafka's ACL question, asked on every API: may ``principal`` from ``host`` do ``operation`` on the resource?"""

    @property
    def keeps_acls(self) -> bool:
        """Does it decide by the ACLs of the log? Without that they cannot be changed: SECURITY_DISABLED."""
        ...

    def allows(self, principal: str, host: str, operation: str, resource_type: str, resource_name: str) -> bool: ...


class Waiters(Protocol):
    """Parked fetches: completed on the event loop when the partition advances far enough."""

    def park(self, later: Any, ready: Callable[[], Message | None]) -> None:
        """Ask ``ready`` whenever the partition advances; a message it returns completes ``later``."""
        ...


class Groups(Protocol):
    """The group coordinator's driver: events in, answers through the given Later."""

    @property
    def coordinator_node_id(self) -> int: ...

    def submit(self, event: Any, later: Any) -> None:
        """Feed one event to the core; its answer completes ``later``, once what it depends on is on disk."""
        ...


class Quorum(Protocol):
    """The real quorum behind the partition, where there is one."""

    @property
    def leader_id(self) -> int:
        """The node that leads the quorum, -1 while nobody knows."""
        ...

    @property
    def image(self) -> Image:
        """The cluster as the committed records say; never halfway through a metadata transaction."""
        ...

    def describe(self, tell: Callable[[DescribeQuorumResponse | str], None]) -> None:
        """Ask the leader who votes and who follows. ``tell`` is called once, with its answer or why there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Forwarder:
    """The node that passed a request on in an Envelope, as it is known where the request is carried out."""

    principal: str
    host: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wants something changed: whom the authorizer is asked about, wherever the request is carried out.

    ``listener`` is where the request came in at the node that carries it out, by way of ``forwarder`` if there is one.
    """

    principal: str
    host: str
    client_id: str | None
    token_authenticated: bool = False
    listener: str = ""
    forwarder: Forwarder | None = None


class Controllers(Protocol):
    """The active controller of our own quorum, wherever it is; ``Quorum.image`` is what it has done so far."""

    @property
    def is_active(self) -> bool:
        """Is it this node?"""
        ...

    def submit(self, request: Message, version: int, asker: Asker, later: Any) -> None:
        """Have ``request`` carried out. The answer, an error too, completes ``later`` once all it says is committed.

        While nobody leads the request waits until ``later``'s deadline, and is then answered with NOT_CONTROLLER; one that
        was passed on and not answered in time with REQUEST_TIMED_OUT: its outcome is unknown.
        """
        ...


class Audit(Protocol):
    """The topic of changes: each node of the quorum keeps those that it carried out, in a partition that it leads."""

    @property
    def nodes(self) -> Sequence[int]:
        """Whose the partitions are, by their numbers: ids of the voters, ascending. None while they are not known."""
        ...

    @property
    def partition(self) -> Partition:
        """This node's own, whatever its number."""
        ...


class RaftPeers(Protocol):
    """This node's part in its own quorum, as the other nodes reach it on a controller listener."""

    @property
    def kraft_version(self) -> int:
        """0: voters by configuration. 1: by the log (KIP-853)."""
        ...

    def ask(self, request: Message, version: int, listener: str, later: Any) -> None:
        """Hand a raft request to the core; ``later`` gets the answer once what it promises is durable."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One advertised listener of this node."""

    listener: str
    host: str
    port: int
    security_protocol: str


class Gateway(Protocol):
    """Everything a handler may reach, in one place."""

    @property
    def node_id(self) -> int: ...
    @property
    def partition(self) -> Partition: ...
    @property
    def quorum(self) -> Quorum | None:
        """None where the partition comes from files: then this node is all there is."""
        ...

    @property
    def controller(self) -> Controllers | None:
        """None where the log is written by others: then nothing can be changed here. Never without ``quorum``."""
        ...

    @property
    def raft(self) -> RaftPeers | None:
        """None where this node has no quorum of its own."""
        ...

    @property
    def audit(self) -> Audit | None:
        """None where this node has no quorum of its own, or keeps no account of changes."""
        ...

    @property
    def groups(self) -> Groups: ...
    @property
    def authorizer(self) -> Authorizer: ...
    @property
    def waiters(self) -> Waiters: ...
    @property
    def config(self) -> Any:
        """The frozen ``gateway.config.Config``."""
        ...

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of this node for clients of ``listener``."""
        ...

    def is_for_controllers(self, listener: str) -> bool:
        """Is that one of ``controller.listener.names``, where the quorum's nodes and their tools ask?"""
        ...
