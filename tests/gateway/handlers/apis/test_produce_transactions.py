"""Produce with batches of a transaction: who may, what the coordinator is asked, and what a client
hears of its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from gateway.ports.pending_response import PendingResponse
from kwire.protocol import ErrorCode
from tests.gateway.broker.produce.batches import produced
from tests.gateway.handlers.apis.test_produce_data import BrokerWorld, parts

Answer = Callable[[Mapping[tuple[str, int], ErrorCode]], None]


class Coordinator:
    """Notes what it is asked, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: list[Answer] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
        on_done: Answer,
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, [*partitions], add))
        self.answers.append(on_done)


class TransactionalWorld(BrokerWorld):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = self.transactions = Coordinator()

    def send(self, *data: Any, version: int = 13, **more: Any) -> Any:
        return self.produce(*data, version=version, **{"transactional_id": "x", **more})

    def said(self, fault: ErrorCode, version: int) -> list[int]:
        """The errors of a request for one partition, of which the coordinator says this."""
        answer = self.send(batch(), version=version)
        self.coordinator.answers.pop()({("t", 0): fault})
        return [part.error_code for part in parts(answer.take(), version)]


def batch(producer: int = 7, **more: Any) -> Any:
    more = {"is_transactional": True, "producer_epoch": 2, "base_sequence": 0, **more}
    return produced(b"v", producer_id=producer, **more)


@pytest.mark.parametrize(("version", "adds"), [(11, False), (12, True), (13, True)])
def test_the_coordinator_is_asked_once_for_all_partitions(version: int, adds: bool) -> None:
    world = TransactionalWorld()
    answer = world.send(batch(), batch(), version=version)
    assert isinstance(answer, PendingResponse) and world.replica.appended == []
    assert world.coordinator.asked == [("x", 7, 2, [("t", 0), ("t", 1)], adds)]
    world.coordinator.answers[0]({("t", 1): ErrorCode.INVALID_TXN_STATE})
    errors = [part.error_code for part in parts(answer.take(), version)]
    assert errors == [0, ErrorCode.INVALID_TXN_STATE]
    assert world.replica.verified == ["asked"]


def test_a_partition_with_the_open_transaction_is_not_asked_for() -> None:
    world = TransactionalWorld()
    world.replica.open.add(7)
    assert [part.error_code for part in parts(world.send(batch()))] == [0]
    assert world.coordinator.asked == []


def test_batches_outside_of_transactions_need_neither_id_nor_coordinator() -> None:
    world = TransactionalWorld()
    (part,) = parts(world.send(batch(is_transactional=False)))
    assert part.error_code == 0 and world.coordinator.asked == []


@pytest.mark.parametrize("case", ["forbidden", "no id", "no coordinator"])
def test_a_client_that_may_not_write_in_the_transaction_is_refused(case: str) -> None:
    world = TransactionalWorld()
    if case == "forbidden":
        world.authorizer.forbidden.add(("WRITE", "TRANSACTIONAL_ID", "x"))
    if case == "no coordinator":
        world.transactions = None
    answer = world.send(batch(), transactional_id=None if case == "no id" else "x")
    (part,) = parts(answer)
    assert part.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.replica.appended == []


def test_a_request_has_batches_of_one_producer() -> None:
    world = TransactionalWorld()
    world.replica.open |= {7, 8}
    errors = [part.error_code for part in parts(world.send(batch(7), batch(8)))]
    assert errors == [0, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize("version", [10, 11, 13])
def test_answers_of_the_coordinator_become_errors_that_the_client_knows(version: int) -> None:
    world = TransactionalWorld()
    known = ErrorCode.TRANSACTION_ABORTABLE if version > 10 else ErrorCode.INVALID_TXN_STATE
    for fault, error in {
        ErrorCode.NONE: ErrorCode.NONE,
        ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE: known,
    }.items():
        assert world.said(fault, version) == [error], fault
