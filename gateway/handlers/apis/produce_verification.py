"""Asks the transaction coordinator, for Produce, whether a transaction has the partitions that its
producer writes to first (KIP-890), and appends where it has.

A partition on which the transaction is open already is not asked for. With version 12 the question
adds the partitions, too. Source: ``ReplicaManager.handleProduceAppend``,
``AddPartitionsToTxnManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.produce.refusal import BatchRefused
from kwire.protocol import ErrorCode
from kwire.records.header import BATCH_OVERHEAD
from kwire.records.record import TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from gateway.broker.produce.producer_state import Verification
    from gateway.broker.produce.validation import ProducedBatch
    from gateway.ports.replicas import Appended, WritablePartition
    from gateway.ports.transactions import Transactions
    from kwire.messages.produce_request import ProduceRequest

#: The first version of Produce whose partitions need not be added before, and whose transactions
#: have an epoch each; and the first one whose clients know TRANSACTION_ABORTABLE (KIP-890).
_ADDS_SINCE: Final = 12
_ABORTABLE_SINCE: Final = 11
_ATTRIBUTES_LOW_BYTE: Final = 22
#: The faults of a coordinator that clients may not know: they produce again after this one.
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def has_transactional_records(request: ProduceRequest) -> bool:
    """Whether a batch of the request is one of a transaction, as far as its header tells."""
    return any(
        partition.records is not None
        and len(partition.records) >= BATCH_OVERHEAD
        and partition.records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT
        for topic in request.topic_data
        for partition in topic.partition_data
    )


class _Waiting(NamedTuple):
    """A batch that may be appended if the coordinator agrees."""

    name: tuple[str, int]
    partition: WritablePartition
    batch: ProducedBatch
    on_done: Callable[[Appended | BatchRefused], None]

    def begin(self, version: int) -> Verification | None:
        """As ``WritablePartition.begin_verification``, for a request of ``version``."""
        bumps_epoch = version >= _ADDS_SINCE
        return self.partition.begin_verification(self.batch, bumps_epoch=bumps_epoch)


class TransactionalAppends:
    """The batches of one request that are part of a transaction."""

    def __init__(self, coordinator: Transactions, transactional_id: str, version: int) -> None:
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._version = version
        self._producer: tuple[int, int] | None = None
        self._waiting: list[_Waiting] = []

    def append(
        self,
        name: tuple[str, int],
        partition: WritablePartition,
        batch: ProducedBatch,
        on_done: Callable[[Appended | BatchRefused], None],
    ) -> None:
        """Append a batch to the partition of that topic and number, now or after :meth:`ask`.
        Raises BatchRefused if another batch of the request is of another producer.
        """
        producer = (batch.header.producer_id, batch.header.producer_epoch)
        if self._producer not in (None, producer):
            raise BatchRefused(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "Transactional records contained more than one producer ID",
            )
        self._producer = producer
        one = _Waiting(name, partition, batch, on_done)
        if one.begin(self._version) is None:
            partition.append(batch, on_done)
        else:
            self._waiting.append(one)

    def ask(self) -> None:
        """Ask the coordinator about the batches that wait for it, once."""
        asked: list[tuple[_Waiting, Verification]] = []
        for one in self._waiting:
            # Begun again: a long request is looked at in slices, and the marker of the transaction
            # before, which the coordinator waits for, makes void what was begun before it, but for
            # producers whose transactions have an epoch each.
            verification = one.begin(self._version)
            if verification is None:
                one.partition.append(one.batch, one.on_done)
            else:
                asked.append((one, verification))
        if not asked:
            return
        assert self._producer is not None, "a batch waits"
        self._coordinator.verify(
            self._transactional_id,
            *self._producer,
            [one.name for one, _ in asked],
            add=self._version >= _ADDS_SINCE,
            on_done=partial(_answered, asked, self._version),
        )


def _answered(
    asked: list[tuple[_Waiting, Verification]],
    version: int,
    faults: Mapping[tuple[str, int], ErrorCode],
) -> None:
    for one, verification in asked:
        fault = faults.get(one.name, ErrorCode.NONE)
        if fault:
            one.on_done(_refused(fault, version))
        else:
            one.partition.append(one.batch, one.on_done, verification)


def _refused(fault: ErrorCode, version: int) -> BatchRefused:
    """Return the error for a client of ``version``."""
    if fault in _RETRIABLE:
        return BatchRefused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            f"{fault.name}",
        )
    if fault is ErrorCode.PRODUCER_FENCED:
        return BatchRefused(ErrorCode.INVALID_PRODUCER_EPOCH, "")
    if fault is ErrorCode.TRANSACTION_ABORTABLE and version >= _ABORTABLE_SINCE:
        return BatchRefused(fault, "")
    if fault in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE):
        return BatchRefused(
            ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"
        )
    return BatchRefused(fault, "")
