"""A partition in memory with a gateway around it, and ``World.ask``: sends one request through a
handler, encoded and decoded both ways.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.request_quota import RequestQuota
from gateway.broker.replica.replica_selector import ReadReplica
from gateway.config.config import Config
from gateway.handlers.context import Context, Peer
from gateway.handlers.fetch_sessions import FetchSessionCache
from gateway.handlers.table import handlers
from gateway.handlers.topic_index import TopicIndex
from gateway.ports.answer_errors import errors_of
from gateway.ports.encoded import PartlyEncoded
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import (
    AbortedTransaction,
    Chunk,
    Endpoint,
    FileRecords,
    Isolation,
    OffsetAt,
    OffsetOutOfRange,
    Read,
    ReplicaFetch,
    State,
)
from gateway.ports.streamed import Streamed
from gateway.ports.work import completed
from gateway.server.scheduling.streamed_encoder import StreamedEncoder
from gateway.server.sources.served_partitions import ServedPartitions, served_partitions
from gateway.sources.log_reader import content
from kwire.cluster.image import Image
from kwire.messages.envelope_response import EnvelopeResponse
from kwire.protocol import ErrorCode

CLUSTER_ID = "Yo6qPvu0S9igQhobMQ-jbw"
NODE = 7


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a :class:`MemoryPartition`; its bytes say which it is."""

    first: int
    last: int
    epoch: int
    timestamp: int = 1000
    size: int = 100

    @property
    def data(self) -> bytes:
        return f"{self.first}-{self.last}@{self.epoch};".encode().ljust(self.size, b".")


@dataclass(eq=False)
class MemoryPartition:
    """``gateway.ports.services.Partition`` over a list of batches that a test sets."""

    batches: list[Batch] = field(default_factory=list)
    log_start_offset: int = 0
    state: State = State.READY
    cluster_id: str = CLUSTER_ID
    log_dir: str = "/var/lib/kafka/__cluster_metadata-0"
    open_reads: int = 0
    open_transaction_at: int = 1 << 62
    aborted: tuple[AbortedTransaction, ...] = ()
    listeners: list[Callable[[], None]] = field(default_factory=list)

    @property
    def leader_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else -1

    @property
    def high_watermark(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.log_start_offset

    def visible_end(self, isolation: Isolation) -> int:
        if isolation is not Isolation.TXN_COMMITTED:
            return self.high_watermark
        return min(self.open_transaction_at, self.high_watermark)

    @property
    def size_bytes(self) -> int:
        return sum(batch.size for batch in self.batches)

    def append(
        self, count: int = 1, *, epoch: int | None = None, timestamp: int = 1000, size: int = 100
    ) -> None:
        first = self.high_watermark
        epoch = max(self.leader_epoch, 1) if epoch is None else epoch
        self.batches.append(Batch(first, first + count - 1, epoch, timestamp, size))
        for callback in list(self.listeners):
            callback()

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> Read:
        taken: list[bytes] = []
        for batch in self._from(offset):
            if taken and sum(map(len, taken)) + batch.size > max_bytes:
                break
            taken.append(batch.data)
        self.open_reads += 1
        return Read([*taken], sum(map(len, taken)), self._release)

    def _release(self) -> None:
        self.open_reads -= 1

    def read_committed(
        self, offset: int, max_bytes: int
    ) -> tuple[Read, Sequence[AbortedTransaction]]:
        return self.read(offset, max_bytes), self.aborted

    def bytes_available(
        self, offset: int, limit: int, isolation: Isolation = Isolation.HIGH_WATERMARK
    ) -> int:
        end = self.visible_end(isolation)
        return min(limit, sum(batch.size for batch in self._from(offset) if batch.last < end))

    def _from(self, offset: int) -> list[Batch]:
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise OffsetOutOfRange(offset)
        return [batch for batch in self.batches if batch.last >= offset]

    is_lagging: bool = False
    fetches: list[ReplicaFetch] = field(default_factory=list)
    fault_of_followers: ErrorCode = ErrorCode.NONE

    def read_replicas(self, offset: int) -> list[ReadReplica]:
        return []

    def has_compared(self, broker_id: int) -> bool:
        return False

    def note_fetch(self, fetch: ReplicaFetch) -> ErrorCode:
        self.fetches.append(fetch)
        return self.fault_of_followers

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        found = (
            OffsetAt(b.first, b.timestamp, b.epoch)
            for b in self.batches
            if b.timestamp >= timestamp
        )
        return next(found, None)

    def max_timestamp(self) -> OffsetAt | None:
        newest = max(self.batches, key=lambda batch: batch.timestamp, default=None)
        return None if newest is None else OffsetAt(newest.first, newest.timestamp, newest.epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        known = [batch.epoch for batch in self.batches if batch.epoch <= epoch]
        if not known:
            return -1, -1
        return known[-1], max(batch.last for batch in self.batches if batch.epoch == known[-1]) + 1

    def epoch_at(self, offset: int) -> int:
        return next(
            (batch.epoch for batch in self.batches if batch.first <= offset <= batch.last), -1
        )

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.listeners.append(callback)
        return lambda: self.listeners.remove(callback)


@dataclass
class Rules:
    """An authorizer that forbids (operation, resource type, name); ``*`` is any name."""

    forbidden: set[tuple[str, str, str]] = field(default_factory=set)
    keeps_acls: bool = False

    def allows(
        self, principal: str, host: str, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        assert principal == "User:ANONYMOUS" and host == "127.0.0.1"
        return (
            not {(operation, resource_type, resource_name), (operation, resource_type, "*")}
            & self.forbidden
        )

    def allows_all(self, principal: str) -> bool:
        return not self.forbidden


def content_of(chunk: Chunk) -> bytes:
    """The bytes of a chunk."""
    return content([chunk])


@dataclass
class MemoryQuorum:
    """``gateway.ports.services.Quorum`` whose leader says what a test wants, when it wants it."""

    leader_id: int = 2
    image: Image = field(default_factory=Image)
    asked: list[Callable[[Any], None]] = field(default_factory=list)

    def describe(self, tell: Callable[[Any], None]) -> None:
        self.asked.append(tell)


@dataclass
class World:
    """A gateway with one partition in memory: epoch 1 at offsets 0-9, epoch 3 at 10-14."""

    partition: MemoryPartition = field(
        default_factory=lambda: MemoryPartition(
            [
                Batch(0, 0, 1, 1000),
                Batch(1, 9, 1, 2000),
                Batch(10, 11, 3, 5000),
                Batch(12, 14, 3, 4000),
            ]
        )
    )
    node_id: int = NODE
    config: Config = field(default_factory=Config)
    authorizer: Rules = field(default_factory=Rules)
    groups: Any = None
    quorum: MemoryQuorum | None = None
    controller: Any = None
    audit: Any = None
    views: Any = None
    raft: Any = None
    replicas: Any = None
    producer_ids: Any = None
    topic_creator: Any = None
    transactions: Any = None
    topic_index: TopicIndex = field(default_factory=TopicIndex)
    relay: Any = None
    quotas: ClientQuotas | None = None
    fetch_sessions: FetchSessionCache = field(
        default_factory=lambda: FetchSessionCache(1000, secrets.randbelow)
    )
    #: Of the parts that this had when the last context was made.
    partitions: ServedPartitions = field(init=False)

    def __post_init__(self) -> None:
        self.partitions = served_partitions(self)

    def is_for_controllers(self, listener: str) -> bool:
        return listener == "CONTROLLER"

    def endpoint(self, listener: str) -> Endpoint:
        port = {"PLAINTEXT": 9092, "EXTERNAL": 19092, "CONTROLLER": 9093}[listener]
        return Endpoint(listener, "gateway.example", port, "PLAINTEXT")

    def context(self, version: int, listener: str = "PLAINTEXT") -> Context:
        self.partitions = served_partitions(self)
        peer = Peer(listener, "User:ANONYMOUS", "127.0.0.1", 50000, 1)
        made = Context(version, "test", peer, self, now=100.0, wall_ms=1_700_000_000_000)
        if self.quotas is not None:
            now = self.quotas.clock()
            made.quota = RequestQuota(self.quotas, peer.principal, made.client_id, now)
        return made

    @property
    def quorum_image(self) -> Image:
        """The image of the quorum, which must be a MemoryQuorum."""
        assert isinstance(self.quorum, MemoryQuorum)
        return self.quorum.image

    def ask(self, handler: Any, version: int, *, listener: str = "PLAINTEXT", **fields: Any) -> Any:
        """The decoded answer of ``handler`` (a module or Handler) to a request of these fields, or
        the PendingResponse.
        """
        request_class = handlers()[api_key(handler)].request_type(version)
        data = build(request_class, fields).encode(version)
        request = request_class.decode(data, version)
        answer = handler.handle(request, self.context(version, listener))
        if isinstance(answer, Generator):
            answer = completed(answer)
        return (
            answer
            if isinstance(answer, PendingResponse) or answer is None
            else over_the_wire(answer, version)
        )


def api_key(handler: Any) -> int:
    """Of a handler module or a Handler."""
    return int(getattr(handler, "API_KEY", getattr(handler, "api_key", -1)))


def over_the_wire(answer: Any, version: int) -> Any:
    """Encode as the server does, insert the records of files, release them, and decode strictly."""
    if isinstance(answer, Streamed) and answer.wrap is not None:
        assert answer.version is not None
        inner = answer.whole()
        parts = answer.wrap([inner.encode(answer.version)], errors_of(inner), version)
        return EnvelopeResponse.decode(b"".join(parts), version)
    form = type(answer.message if isinstance(answer, (PartlyEncoded, Streamed)) else answer)
    data, reads = b"", []
    for part in encoded(answer, version):
        if isinstance(part, FileRecords):
            reads.append(part.read)
            part = b"".join(map(content_of, part.read.chunks))
        data += bytes(part)
    for read in reads:
        read.release()
    return form.decode(data, version)


def encoded(answer: Any, version: int) -> list[Any]:
    """The parts of the body, as the server encodes them."""
    if not isinstance(answer, Streamed):
        parts: list[Any] = answer.encode_parts(version)
        return parts
    encoder = StreamedEncoder(answer, version)
    assert encoder.run(time.monotonic, 3600)
    return encoder.take()


def build(cls: Any, fields: Mapping[str, Any]) -> Any:
    """A message or struct of class ``cls`` from nested mappings: structs as dicts, arrays of
    structs as lists of dicts.
    """
    infos = {info.attr: info for info in cls.fields()}
    made = {}
    for name, value in fields.items():
        inner = cls.struct_class(infos[name].type) if infos[name].is_struct else None
        if inner is not None and isinstance(value, list):
            value = [build(inner, one) for one in value]
        elif inner is not None and isinstance(value, dict):
            value = build(inner, value)
        made[name] = value
    return cls(**made)
