"""Batches of a transaction are appended where its coordinator agrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.handlers.apis.produce_verification import TransactionalAppends
from gateway.ports.replicas import Appended
from kwire.protocol import ErrorCode
from tests.gateway.sources.data_partitions import batch_of, led, settle

_NAME = ("t", 0)
_V2 = 2


class Coordinator:
    """Agrees when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[tuple[str, int]], bool]] = []
        self._waiting: list[Callable[[Mapping[tuple[str, int], ErrorCode]], None]] = []

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
        self.asked.append((partitions, add))
        self._waiting.append(on_done)

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        for on_done in self._waiting:
            on_done({_NAME: error})
        self._waiting.clear()


class Request:
    """A Produce request with one batch of producer 7."""

    def __init__(self, coordinator: Any, partition: Any, epoch: int, sequence: int) -> None:
        self.outcomes: list[Any] = []
        self._appends = TransactionalAppends(coordinator, "id", 12)
        batch = batch_of(
            b"v",
            producer_id=7,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._appends.append(_NAME, partition, batch, self.outcomes.append)
        self._partition = partition

    def ask(self) -> None:
        self._appends.ask()
        settle(self._partition)


def test_first_batch_of_a_transaction_waits_for_the_coordinator(tmp_path: Path) -> None:
    coordinator, one = Coordinator(), led(tmp_path / "t-0")
    first = Request(coordinator, one, 0, 0)
    first.ask()
    assert (first.outcomes, coordinator.asked) == ([], [([_NAME], True)])
    coordinator.answer()
    assert isinstance(first.outcomes[0], Appended)
    second = Request(coordinator, one, 0, 1)
    assert isinstance(second.outcomes[0], Appended), "the transaction is open here"


def test_batch_that_the_coordinator_refuses_is_not_appended(tmp_path: Path) -> None:
    coordinator, one = Coordinator(), led(tmp_path / "t-0")
    first = Request(coordinator, one, 0, 0)
    first.ask()
    coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert first.outcomes[0].error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert one.high_watermark == 0


def test_marker_that_comes_while_a_request_is_looked_at_does_not_refuse_it(tmp_path: Path) -> None:
    """The request is looked at in slices, and asks at its end, when the coordinator has completed
    the transaction before.
    """
    coordinator, one = Coordinator(), led(tmp_path / "t-0")
    opens = Request(coordinator, one, 5, 0)
    opens.ask()
    coordinator.answer()
    request = Request(coordinator, one, 6, 0)
    one.append_marker(7, 6, True, 1, _V2, lambda outcome: None)
    settle(one)
    request.ask()
    coordinator.answer()
    assert isinstance(request.outcomes[0], Appended)


def test_two_requests_that_begin_a_transaction_are_both_appended(tmp_path: Path) -> None:
    coordinator, one = Coordinator(), led(tmp_path / "t-0")
    requests = [Request(coordinator, one, 0, 0), Request(coordinator, one, 0, 1)]
    requests[0].ask()
    coordinator.answer()
    requests[1].ask()
    assert len(coordinator.asked) == 1, "the transaction is open by then"
    assert all(isinstance(request.outcomes[0], Appended) for request in requests)
