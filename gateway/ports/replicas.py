"""Declares, as Protocols, what Produce uses of the partitions that hold data on this node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.ports.services import Partition, Requester

if TYPE_CHECKING:
    from gateway.broker.produce.append_backlog import AppendBacklog
    from gateway.broker.produce.producer_state import Verification
    from gateway.broker.produce.refusal import BatchRefused
    from gateway.broker.produce.validation import ProducedBatch, TopicRules
    from kwire.messages.partition_record import PartitionRecord
    from kwire.protocol import ErrorCode
    from kwire.uuid import Uuid


@dataclass(frozen=True, slots=True)
class Appended:
    """The outcome of an append: the offset of the first record, and -1 or the time (ms) that the
    records of the batch have from now on.
    """

    base_offset: int
    log_append_time: int
    log_start_offset: int


class ActiveProducer(NamedTuple):
    """A producer, its newest sequence number, and the largest timestamp (ms) of its newest batch;
    the epoch of the coordinator that ended its last transaction, and where its open one begins, or
    -1.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int = -1
    txn_start_offset: int = -1


class LogSize(NamedTuple):
    """The bytes of a partition on disk, in ``directory``. ``is_future``: the log is being moved
    there, and ``lag`` records are to come.
    """

    topic: str
    partition: int
    size: int
    directory: str = ""
    lag: int = 0
    is_future: bool = False


class WritablePartition(Partition, Protocol):
    """A partition that this node leads, and that clients write to."""

    @property
    def rules(self) -> TopicRules:
        """The configuration of its topic, as of now."""
        ...

    @property
    def backlog(self) -> AppendBacklog:
        """The batches that wait for its disk: while it is full, none is to be appended."""
        ...

    def producers(self) -> Sequence[ActiveProducer]:
        """The idempotent producers whose newest batches are known."""
        ...

    def begin_verification(
        self, batch: ProducedBatch, *, bumps_epoch: bool = False
    ) -> Verification | None:
        """Return what the append of a transactional batch needs, beside the coordinator's word that
        the transaction has this partition; None if the transaction is open here already.
        ``bumps_epoch``: each transaction of the producer has an epoch of its own.
        """
        ...

    def append(
        self,
        batch: ProducedBatch,
        on_done: Callable[[Appended | BatchRefused], None],
        verification: Verification | None = None,
        *,
        until_committed: bool = True,
    ) -> None:
        """Append a batch behind the others, and call ``on_done`` once on the event loop: with
        ``until_committed`` (``acks=all``) when all replicas that are in sync have it, otherwise
        when the log has it, which is usually before this returns.

        A batch that is to be committed is refused while fewer replicas than min.insync.replicas are
        in sync: NOT_ENOUGH_REPLICAS before the append, NOT_ENOUGH_REPLICAS_AFTER_APPEND behind it.

        A batch without sequence numbers is a coordinator's on this node, and needs no verification.
        """
        ...

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        transaction_version: int,
        on_done: Callable[[Appended | BatchRefused], None],
    ) -> None:
        """End the transaction of a producer with a control batch, which makes its records visible
        to readers of committed ones, or leaves them out. As :meth:`append`, until committed.
        """
        ...

    def delete_records(self, before: int, on_done: Callable[[int | ErrorCode], None]) -> None:
        """Delete the records below offset ``before``, or all that are committed for -1; call
        ``on_done`` once on the event loop with the first offset that is left, or an error.
        """
        ...


class Replicas(Protocol):
    """The partitions of created topics that are kept on this node (``ReplicaManager``)."""

    @property
    def knows_topics(self) -> bool:
        """Whether the image has everything that was committed before this start: before that, a
        topic that it does not have may exist.
        """
        ...

    def find(self, record: PartitionRecord) -> Partition | ErrorCode:
        """Return the partition of a record of the image, which this node leads or follows, for
        readers; or the error for the client.
        """
        ...

    def find_writable(self, topic_id: Uuid, index: int) -> WritablePartition | ErrorCode:
        """Return a partition that this node leads, or the error for the client."""
        ...

    def count_produce(self, partition: WritablePartition) -> None:
        """Count a partition of a Produce request for the metrics."""
        ...

    def count_refused(self, partition: WritablePartition, error: ErrorCode) -> None:
        """Count a batch that was refused with ``error`` before it was given to the partition."""
        ...

    @property
    def are_throttled(self) -> bool:
        """Whether there is a quota for what leaders send to followers."""
        ...

    def holds_back(self, partition: Partition, follower: int) -> bool:
        """Whether the follower, which is not in sync, gets no records of the partition now, because
        the quota is exceeded (``ReplicaManager.shouldLeaderThrottle``).
        """
        ...

    def count_fetch(self, partition: Partition, size: int, *, of_follower: bool) -> None:
        """Count a partition in a response to Fetch, with the bytes of its records."""
        ...

    def directories(self) -> Mapping[str, bool]:
        """Return the log directories, and whether each can be used."""
        ...

    def move(self, record: PartitionRecord, path: str) -> ErrorCode:
        """Have the log of a partition moved to the directory ``path``, which can be used; NONE if
        that has begun, or the log is there.
        """
        ...

    def sizes(self) -> Iterator[LogSize]:
        """Yield the size of each partition, those of a topic one after the other."""
        ...


class TopicCreator(Protocol):
    """Has topics created because clients ask for them (``AutoTopicCreationManager``)."""

    def create(self, name: str, requester: Requester) -> None:
        """Begin the creation of a topic for a client that may create it, unless that has begun."""
        ...


class ProducerIds(Protocol):
    """Gives out the ids of idempotent producers (``ProducerIdManager``)."""

    def allocate(self, on_done: Callable[[int | ErrorCode], None]) -> None:
        """Call ``on_done`` once, with an id that no producer of the cluster has had, or an
        error.
        """
        ...
