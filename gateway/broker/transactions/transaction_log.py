"""Keeps the transactions of the partitions of ``__transaction_state`` that this node leads.

A partition is absent, loading, or loaded with its transactions. It decides nothing about them.
Follows Kafka's ``TransactionStateManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.base.java.text import hash_code
from gateway.base.slices import Slices, pieces
from gateway.broker.transactions.records import read_key, read_value
from gateway.broker.transactions.transaction import TopicPartition, Transaction, TransactionState
from kwire.protocol import ErrorCode

_INT32_MIN: Final = -(1 << 31)
#: Records that are read between two slices: about 1 ms.
_RECORDS_PER_SLICE: Final = 100


@dataclass(slots=True, eq=False)
class Entry:
    """A transactional id. ``transaction`` is what the log says of it.

    ``pending``: the state that follows, until its record is in the log; meanwhile every request
    gets CONCURRENT_TRANSACTIONS. A prepared transaction has it while markers are written.
    """

    partition: LedPartition
    transaction: Transaction
    pending: Transaction | None = None
    #: Partitions of a prepared transaction that have no marker yet.
    unmarked: set[TopicPartition] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class LedPartition:
    """A partition of the log that this node leads in ``epoch``."""

    index: int
    epoch: int
    is_loaded: bool = False
    entries: dict[str, Entry] = field(default_factory=dict)


class TransactionCounts(NamedTuple):
    """How many transactional ids are in each state, and partitions that have no marker yet of
    transactions whose outcome is decided.
    """

    by_state: Mapping[TransactionState, int]
    unmarked: int


class TransactionLog:
    """The partitions of the log that this node leads, by index."""

    def __init__(self) -> None:
        #: Partitions of the topic; 0 while it does not exist.
        self.partition_count = 0
        self._led: dict[int, LedPartition] = {}

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition that has the transactional id; the topic exists."""
        number = hash_code(transactional_id)
        return (0 if number == _INT32_MIN else abs(number)) % self.partition_count

    def begin(self, index: int, epoch: int) -> LedPartition:
        """Take over a partition, which is loading from now on."""
        self._led[index] = LedPartition(index, epoch)
        return self._led[index]

    def resign(self, index: int) -> LedPartition | None:
        """Give up a partition; None if it was not led."""
        return self._led.pop(index, None)

    def leads(self, partition: LedPartition) -> bool:
        """Whether the partition is still led in this epoch."""
        return self._led.get(partition.index) is partition

    def partition_for(self, transactional_id: str) -> LedPartition | ErrorCode:
        """Return the loaded partition of the transactional id, or the error for the client."""
        if not self.partition_count:
            return ErrorCode.NOT_COORDINATOR
        led = self._led.get(self.partition_of(transactional_id))
        if led is None:
            return ErrorCode.NOT_COORDINATOR
        return led if led.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    @property
    def is_loading(self) -> bool:
        """Whether some partition is not loaded yet."""
        return any(not led.is_loaded for led in self._led.values())

    def find(self, transactional_id: str) -> Entry | ErrorCode:
        """Return what the log has of the transactional id, or the error for the client."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        led = self.partition_for(transactional_id)
        if isinstance(led, ErrorCode):
            return led
        entry = led.entries.get(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if entry is None else entry

    def entries(self) -> Iterator[Entry]:
        """Yield every transactional id that is in the log. Others may be added meanwhile."""
        for led in list(self._led.values()):
            yield from list(led.entries.values())


def read_transactions(
    records: Iterable[tuple[bytes, bytes | None]],
) -> Slices[dict[str, Transaction]]:
    """Fold the records of a partition, in the order of the log. Raises DecodeError."""
    found: dict[str, Transaction] = {}
    for some in pieces(records, _RECORDS_PER_SLICE):
        for key, value in some:
            transactional_id = read_key(key)
            if transactional_id is None:
                continue
            if value is None:
                found.pop(transactional_id, None)
                continue
            transaction = read_value(transactional_id, value)
            if transaction is not None:
                found[transactional_id] = transaction
        yield
    return found
