"""Random clients, disks and crashes: what the transaction coordinator promises holds in any order
of its events.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.broker.transactions.effects import Append, WriteMarkers
from gateway.broker.transactions.events import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerResult,
)
from gateway.broker.transactions.transaction import (
    LAST_EPOCH,
    Producer,
    TopicPartition,
    TransactionState,
)
from kwire.protocol import ErrorCode
from tests.gateway.broker.transactions.driver import EXPIRATION_MS, TIMEOUT_MS, Driver

NAMES = ("t", "u", "v")
PARTITIONS = tuple(TopicPartition("data", index) for index in range(3))
STEPS = 400


class Model:
    """Clients that each believe to be the producer of some id, against one coordinator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.driver = Driver(level=self.random.choice((0, 1, 2)), is_slow=True, partitions=2)
        self.version = self.random.choice((0, 2)) if self.driver.level == 2 else 0
        self.driver.append_error = self._append_error
        self.driver.marker_error = self._marker_error
        self.asked: dict[int, Any] = {}
        self.producers: dict[str, list[Producer]] = {name: [] for name in NAMES}
        self.given: set[Producer] = set()
        #: (id, epoch of the markers) -> the outcome that was acknowledged
        self.acknowledged: dict[Producer, bool] = {}
        self.calm = False

    def _append_error(self) -> ErrorCode:
        fails = not self.calm and self.random.random() < 0.05
        return ErrorCode.KAFKA_STORAGE_ERROR if fails else ErrorCode.NONE

    def _marker_error(self, where: TopicPartition) -> ErrorCode:
        fails = not self.calm and self.random.random() < 0.2
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if fails else ErrorCode.NONE

    def step(self) -> None:
        pick, driver = self.random.random(), self.driver
        if driver.effects and pick < 0.6:
            driver.step(self._next_effect())
        elif pick < 0.62:
            driver.start()  # killed: no client that waits has an answer
            self.asked.clear()
        elif pick < 0.66:
            driver.now_ms += self.random.choice((1, TIMEOUT_MS, EXPIRATION_MS))
        elif pick < 0.68:
            driver.tick()
        elif pick < 0.69:
            driver.expire()
        else:
            self._ask()
        self._hear()

    def _next_effect(self) -> int:
        """Appends to the log and markers overtake what else is to be done; appends keep their
        order.
        """
        effects = self.driver.effects
        candidates = [
            at
            for at, effect in enumerate(effects)
            if not isinstance(effect, Append)
            or not any(isinstance(one, Append) for one in list(effects)[:at])
        ]
        return self.random.choice(candidates)

    def _ask(self) -> None:
        name = self.random.choice(NAMES)
        known = self.producers[name]
        if not known or self.random.random() < 0.15:
            expected = self.random.choice([None, *known])
            event: Any = InitProducer(name, TIMEOUT_MS, expected)
        else:
            # Mostly the newest, sometimes one that was fenced.
            producer = known[-1] if self.random.random() < 0.9 else self.random.choice(known)
            if self.random.random() < 0.6:
                some = frozenset(self.random.sample(PARTITIONS, self.random.randint(1, 2)))
                event = AddPartitions(name, producer, some, self.version)
            else:
                event = EndTransaction(name, producer, self.random.random() < 0.6, self.version)
        self.asked[self.driver.send(event)] = event

    def _hear(self) -> None:
        for token in [one for one in self.asked if one in self.driver.answers]:
            event, result = self.asked.pop(token), self.driver.answers[token]
            if isinstance(result, ProducerResult) and not result.error:
                self._acknowledged(event, Producer(result.producer_id, result.epoch))

    def _acknowledged(self, event: Any, producer: Producer) -> None:
        known = self.producers[event.transactional_id]
        if isinstance(event, InitProducer) and event.expected is None:
            assert producer not in self.given, "each producer has an epoch of its own"
        if isinstance(event, EndTransaction):
            # With version 2 the markers have the next epoch, also where the id is exhausted.
            bumped = event.client_version == 2
            marked = event.producer._replace(epoch=event.producer.epoch + bumped)
            before = self.acknowledged.setdefault(marked, event.commits)
            # Without bumps the epoch has many transactions.
            assert not bumped or before is event.commits, "an outcome is final"
        self.given.add(producer)
        if producer not in known:
            known.append(producer)

    def settle(self) -> None:
        """Let everything that was begun end."""
        self.calm = True
        self.driver.is_slow = False
        self.driver.take([])
        self._hear()


def check(model: Model) -> None:
    driver = model.driver
    live = {
        one.transaction.transactional_id: one.transaction
        for one in driver.coordinator.log.entries()
        if one.transaction.producer_epoch >= 0
    }
    folded = driver.folded()
    # A restart forgets the last epoch, as in Kafka: no record has it.
    assert {name: one.producer for name, one in live.items()} == {
        name: one.producer for name, one in folded.items()
    }
    assert {name: one.state for name, one in live.items()} == {
        name: one.state for name, one in folded.items()
    }
    assert {name: one.partitions for name, one in live.items()} == {
        name: one.partitions for name, one in folded.items()
    }
    if model.version == 2:  # without bumps an epoch has many transactions
        for where, markers in driver.markers.items():
            outcomes: dict[Producer, bool] = {}
            for marker in markers:
                first = outcomes.setdefault(marker.producer, marker.commits)
                assert first is marker.commits, f"{where} has two outcomes of {marker.producer}"


@pytest.mark.parametrize("seed", range(60))
def test_states_of_the_log_and_outcomes_hold_whatever_happens(seed: int) -> None:
    model = Model(seed)
    for _ in range(STEPS):
        model.step()
        check(model)
    model.settle()
    check(model)
    for one in model.driver.coordinator.log.entries():
        assert one.pending is None
        assert not one.transaction.state.is_prepared, "markers are written in the end"
    for producer, commits in model.acknowledged.items():
        marked = [
            marker.commits
            for markers in model.driver.markers.values()
            for marker in markers
            if marker.producer == producer
        ]
        assert not marked or commits in marked


@pytest.mark.parametrize("seed", range(10))
def test_epochs_end_and_ids_go_on(seed: int) -> None:
    model = Model(seed)
    # The epochs of the first producers are nearly used up.
    model.calm, model.driver.is_slow = True, False
    for name in NAMES:
        model.driver.producer(name)
        model.producers[name].append(model.driver.skip_to_epoch(LAST_EPOCH - 2, name))
    model.calm = False
    model.driver.is_slow = True
    for _ in range(STEPS):
        model.step()
    model.settle()
    assert all(
        0 <= one.transaction.producer_epoch <= LAST_EPOCH
        or one.transaction.state is TransactionState.COMPLETE_ABORT
        for one in model.driver.coordinator.log.entries()
    )


def test_effects_of_the_model_are_of_every_kind() -> None:
    kinds: set[str] = set()
    for seed in range(5):
        model = Model(seed)
        for _ in range(STEPS):
            model.step()
            kinds.update(type(effect).__name__ for effect in model.driver.effects)
    assert {"Answer", "Allocate", "Append", WriteMarkers.__name__, "RetryLater"} <= kinds
