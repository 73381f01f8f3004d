"""Declares, as Protocols, what request handlers use of the rest of the gateway.

A *source* provides the metadata partition; groups, authorizer, controller and raft have a Protocol
each, and ``gateway.handlers.gateway_port.Gateway`` holds them all. Handlers depend on these alone,
so they run in tests without sockets, files and trio. The implementations are in ``gateway.sources``
and ``gateway.server``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kwire.uuid import Uuid

if TYPE_CHECKING:
    from gateway.broker.replica.follower_state import Contact
    from gateway.broker.replica.replica_selector import ReadReplica
    from gateway.groups.events import Event, Result
    from gateway.ports.pending_response import PendingResponse
    from kwire.cluster.image import Image
    from kwire.message import Message
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse
    from kwire.protocol import ErrorCode

_Answer = TypeVar("_Answer", contravariant=True)

#: The one partition of the metadata topic.
PARTITION = 0
#: The topic of administrative changes.
AUDIT_TOPIC: Final = "__cluster_metadata_audit"
#: The client id of a node that hands the entries of its audit log over to the topic's leader.
AUDIT_CLIENT_ID: Final = "__audit_forwarder"
#: The topic's id before it is created, while each node serves its own audit log as a partition:
#: a3dpcmUAgACAAAAAAAAAAQ. UUID version 8 (RFC 9562, custom) cannot collide with the random
#: ids, of version 4, that a controller gives to topics.
AUDIT_TOPIC_ID: Final = Uuid(b"kwire\0\x80\0\x80\0\0\0\0\0\0\x01")


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of an open file that a plaintext connection can hand to ``sendfile``: descriptor,
    position, length.
    """

    fd: int
    position: int
    length: int


#: Record bytes of an answer: ranges of files, or bytes already in memory, in order.
Chunk = FileRange | bytes | memoryview


@dataclass(frozen=True, slots=True)
class Read:
    """The outcome of a read: whole batches only, in offset order.

    ``chunks`` are the record bytes in order, ``size`` their total. The files stay open until the
    connection that sent the response calls ``release``, which it does once.
    """

    chunks: Sequence[Chunk]
    size: int
    release: Callable[[], None]


class FileRecords:
    """Takes the place of the bytes of a :class:`Read` in a response's ``records`` field, so that
    a file's bytes are read only when they are sent.

    A handler sets ``records=FileRecords(read)``; ``encode_parts`` writes ``len()`` and passes the
    object through; the connection puts the chunks there (``sendfile`` where it can) and releases
    the read once it is sent or the connection is gone.
    """

    __slots__ = ("read",)

    def __init__(self, read: Read) -> None:
        self.read = read

    def __len__(self) -> int:
        return self.read.size


class AbortedTransaction(NamedTuple):
    """A transaction whose records a reader of committed records leaves out: those of the producer
    from ``first_offset`` to its marker.
    """

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class OffsetAt:
    """An offset with the timestamp (ms since the epoch) and leader epoch of its record; -1 where
    there is none.
    """

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetOutOfRange(Exception):
    """A read began below the log start or above the high watermark."""


class SourceStopped(Exception):
    """A source cannot be followed without an operator's help; the text says why, and what to do."""


class State(enum.Enum):
    """Whether the partition can be served: LOADING answers retriable errors, never offset 0."""

    LOADING = "loading"
    READY = "ready"
    STALE = "stale"  #: committed data is served, but the source is out of reach
    BROKEN = "broken"  #: a corrupt batch ends the log; what lies before it is served


class Isolation(enum.Enum):
    """The records that the sender of a request may see (``FetchIsolation``)."""

    LOG_END = "log end"  #: all: it is a replica
    HIGH_WATERMARK = "high watermark"  #: all that are committed to the log
    TXN_COMMITTED = "committed transactions"  #: those before the first open transaction (KIP-98)


class ReplicaFetch(NamedTuple):
    """A follower fetches from ``offset``, and has everything below; ``log_start_offset`` is that of
    its own log, ``contact`` has the time. ``broker_epoch`` is -1 if the request has none.
    ``is_compared``: the leader has the record before ``offset``, in the epoch that the request
    names, or the follower has no record.
    """

    broker_id: int
    broker_epoch: int
    offset: int
    log_start_offset: int
    contact: Contact
    is_compared: bool = False


class Partition(Protocol):
    """A partition that this node leads, or follows if consumers may fetch from it. All methods run
    on the event loop and do bounded work. Partitions are compared by identity.
    """

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
        """One past the last offset that clients may see. Goes back only when a followed directory
        is truncated.
        """
        ...

    def visible_end(self, isolation: Isolation) -> int:
        """One past the last offset that such a reader may see: the log end, the high watermark, or
        the last stable offset.
        """
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, for DescribeLogDirs."""
        ...

    @property
    def log_dir(self) -> str: ...

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> Read:
        """Whole batches from the one that holds ``offset``; at least one below the visible end,
        even beyond ``max_bytes``. For committed transactions there is ``read_committed``.

        Empty from the visible end to the log end. Raises OffsetOutOfRange.
        """
        ...

    def read_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Read, Sequence[AbortedTransaction]]:
        """As ``read``, below the last stable offset; and the transactions with records in it that
        were aborted. Empty from the last stable offset to the high watermark.
        """
        ...

    def bytes_available(
        self, offset: int, limit: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> int:
        """Bytes a read at ``offset`` would give, counted no further than ``limit``: for a Fetch's
        min_bytes.
        """
        ...

    @property
    def is_lagging(self) -> bool:
        """Whether the high watermark is below where this leader began: offsets that an earlier
        leader has told may be above it.
        """
        ...

    def note_fetch(self, fetch: ReplicaFetch) -> ErrorCode:
        """A follower fetches from an offset in this log, with its records before it. Return the
        error for a broker that is no replica, or not any more.
        """
        ...

    def has_compared(self, broker_id: int) -> bool:
        """Whether all records of a follower are known to be the leader's, also where the leader
        has deleted its own.
        """
        ...

    def read_replicas(self, offset: int) -> Sequence[ReadReplica]:
        """The followers in the ISR that have ``offset``, from which consumers may fetch."""
        ...

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        """The first record with a timestamp >= ``timestamp`` (ms), or None."""
        ...

    def max_timestamp(self) -> OffsetAt | None:
        """The record with the largest timestamp, the first of them; None in an empty log."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch <= ``epoch``, its end offset), (-1, -1) if there is none
        (OffsetForLeaderEpoch's rule).
        """
        ...

    def epoch_at(self, offset: int) -> int:
        """Leader epoch of the batch that holds ``offset``, -1 if outside the log. At the end of a
        log that this node writes: the epoch of the next batch.
        """
        ...

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` on the event loop whenever the high watermark or log start moves, or a
        log that this node writes cannot be read, or can again; returns the unsubscriber.
        """
        ...


class ReadPolicy(Protocol):
    """Decides whose requests are those of followers."""

    def isolation(self, replica_id: int, isolation_level: int) -> Isolation:
        """Return which records the sender of a Fetch or ListOffsets may see
        (``FetchIsolation.of``).
        """
        ...


class Partitions(Protocol):
    """The partitions of all topics, as clients of this node may use them (``ReplicaManager``)."""

    @property
    def policy(self) -> ReadPolicy: ...

    def find(self, topic: str | Uuid, index: int) -> Partition | ErrorCode:
        """Return a partition that this node leads, by the name or the id of its topic; or the error
        for the client: NOT_LEADER_OR_FOLLOWER if another node leads it, else
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        ...

    def find_replica(self, topic: str | Uuid, index: int) -> Partition | ErrorCode:
        """As :meth:`find`, of a partition that this node leads or follows (KIP-392).
        NOT_LEADER_OR_FOLLOWER if it does neither.
        """
        ...


class Authorizer(Protocol):
    """Decides, as Kafka's Authorizer, what a principal may do. Every API asks it."""

    @property
    def keeps_acls(self) -> bool:
        """True where the ACLs of the log decide. Otherwise changes of ACLs are answered with
        SECURITY_DISABLED.
        """
        ...

    def allows(
        self, principal: str, host: str, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """True if ``principal`` may do ``operation`` on the resource from ``host``."""
        ...

    def allows_all(self, principal: str) -> bool:
        """True if ``principal`` may do everything: it is a super user, or there are no ACLs. It is
        False where only :meth:`allows` can tell.
        """
        ...


class Completable(Protocol[_Answer]):
    """An answer to be given later: on the event loop, once; later calls are ignored."""

    def complete(self, response: _Answer, /) -> None:
        """Give the answer."""
        ...


class Groups(Protocol):
    """The group coordinator: takes events, completes responses."""

    def coordinator_of(self, group_id: str) -> int | ErrorCode:
        """Return the node that coordinates a group, or the error for its clients."""
        ...

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        """The marker of a producer's transaction is in ``partition`` of ``__consumer_offsets``:
        offsets that it has committed there count from now on, or are dropped.
        """
        ...

    def submit(self, event: Event, pending: Completable[Result]) -> None:
        """Handle one event. Its result completes ``pending``, once the offsets that it acknowledges
        are on disk.
        """
        ...


class Quorum(Protocol):
    """The KRaft quorum behind the partition: this node's own, or one that it observes."""

    @property
    def leader_id(self) -> int:
        """The node that leads the quorum, -1 while no leader is known."""
        ...

    @property
    def image(self) -> Image:
        """The committed state of the cluster; never within a metadata transaction (KIP-868)."""
        ...

    def describe(self, on_response: Callable[[DescribeQuorumResponse | str], None]) -> None:
        """Send DescribeQuorum to the leader. ``on_response`` is called once, with the response, or
        with the reason why there is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Forwarder:
    """The node that forwarded a request in an Envelope (KIP-590)."""

    principal: str
    host: str
    client_id: str | None


@dataclass(frozen=True, slots=True)
class Requester:
    """The client of an administrative request: the authorizer decides about its principal.

    ``listener`` is that of the node which carries the request out; the request came from
    ``forwarder`` if a node forwarded it.
    """

    principal: str
    host: str
    client_id: str | None
    token_authenticated: bool = False
    listener: str = ""
    forwarder: Forwarder | None = None


#: Principal of requests that this node sends to the controller itself. It is not a client's: those
#: begin with ``User:``. A node that may forward requests could claim it, but such a node is trusted
#: to name any principal.
THIS_NODE: Final = Requester("Node:itself", "127.0.0.1", None)


class Controllers(Protocol):
    """The active controller, at this node or another."""

    @property
    def is_active(self) -> bool:
        """True if this node is the active controller."""
        ...

    def submit(
        self, request: Message, version: int, requester: Requester, pending: PendingResponse
    ) -> None:
        """Carry out ``request``, or forward it. The response, an error too, completes ``pending``
        once everything that it says is committed.

        While there is no leader the request waits until ``pending``'s deadline, and is then
        answered with NOT_CONTROLLER. A forwarded request that is not answered in time is answered
        with REQUEST_TIMED_OUT: its outcome is unknown.
        """
        ...


class Audit(Protocol):
    """The audit logs of the nodes, which are the audit topic until that is created. Each node of
    the quorum leads one partition, which holds the changes that the node carried out.
    """

    @property
    def nodes(self) -> Sequence[int]:
        """Ids of the voters and of all registered controllers, ascending: partition N is that of
        the Nth. Empty while the voters are not known.
        """
        ...

    @property
    def partition(self) -> Partition:
        """The partition of this node."""
        ...


class RaftPeers(Protocol):
    """This node's part in its own quorum: serves raft requests of controller listeners."""

    @property
    def kraft_version(self) -> int:
        """0: the configuration has the voters; 1: the log has them (KIP-853)."""
        ...

    def ask(self, request: Message, version: int, listener: str, pending: PendingResponse) -> None:
        """Handle a raft request. The response completes ``pending`` once everything that it
        acknowledges is on disk.
        """
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One advertised listener of this node."""

    listener: str
    host: str
    port: int
    security_protocol: str
