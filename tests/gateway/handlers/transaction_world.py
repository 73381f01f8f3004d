"""``gateway.ports.transactions.Transactions`` over the real coordinator, with its log in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.base.slices import Slices
from gateway.broker.transactions import queries
from gateway.broker.transactions.events import AddPartitions, Event, VerifyPartitions
from gateway.broker.transactions.queries import Filter
from gateway.broker.transactions.transaction import Producer, TopicPartition, Transaction
from gateway.ports.pending_response import PendingResponse
from kwire.protocol import ErrorCode
from tests.gateway.broker.transactions.driver import Driver
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, over_the_wire


class CoreTransactions:
    """Answers at once. ``driver`` has the log and the markers."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.coordinator: int | ErrorCode = NODE
        self.offsets_partition: int | None = 7

    def find_coordinator(self, transactional_id: str) -> int | ErrorCode:
        return self.coordinator

    def partition_of_group(self, group_id: str) -> int | None:
        return self.offsets_partition

    def submit(self, event: Event, on_done: Callable[[Any], None]) -> None:
        on_done(self.driver.ask(event))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
        on_done: Callable[[Mapping[tuple[str, int], ErrorCode]], None],
    ) -> None:
        producer = Producer(producer_id, producer_epoch)
        wanted = frozenset(TopicPartition(*one) for one in partitions)
        if add:
            error = self.driver.ask(AddPartitions(transactional_id, producer, wanted, 2))
            on_done(dict.fromkeys(wanted, error))
        else:
            on_done(self.driver.ask(VerifyPartitions(transactional_id, producer, wanted)))

    def describe(self, transactional_id: str) -> Transaction | ErrorCode:
        return queries.describe(self.driver.coordinator.log, transactional_id)

    def matching(self, wanted: Filter, now_ms: int) -> Slices[list[Transaction] | ErrorCode]:
        return queries.matching(self.driver.coordinator.log, wanted, now_ms)


class TransactionWorld(OwnWorld):
    """A broker with the topic ``t``, and the producer of the id ``pay``."""

    def __init__(self) -> None:
        super().__init__()
        self.create("t", [NODE])
        self.transactions = CoreTransactions()
        self.producer = self.transactions.driver.producer("pay")

    def of(self, handler: Any, version: int, **fields: Any) -> Any:
        """Return the answer of ``handler`` to a request of the producer, unless ``fields`` say
        otherwise.
        """
        wanted = {
            "transactional_id": "pay",
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.epoch,
        }
        answer = self.ask(handler, version, **(wanted | fields))
        if isinstance(answer, PendingResponse):
            answer = over_the_wire(answer.take(), version)
        return answer
