"""Carries out the effects of a transaction coordinator in memory: the log is a list, and each
partition of data is the list of its markers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from gateway.base.slices import run
from gateway.broker.transactions.coordinator import TransactionCoordinator
from gateway.broker.transactions.effects import (
    Allocate,
    Answer,
    Append,
    Effect,
    Moment,
    RetryLater,
    WriteMarkers,
)
from gateway.broker.transactions.events import (
    AddPartitions,
    EndTransaction,
    Event,
    InitProducer,
    ProducerResult,
)
from gateway.broker.transactions.records import transaction_key, transaction_value
from gateway.broker.transactions.transaction import Producer, TopicPartition, Transaction
from gateway.broker.transactions.transaction_log import read_transactions
from kwire.protocol import ErrorCode

TIMEOUT_MS = 60_000
EXPIRATION_MS = 1_000_000
EPOCH = 5
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


class Marker(NamedTuple):
    producer: Producer
    commits: bool


class Driver:
    """Performs effects at once, or one at a time when :meth:`step` is called (``is_slow``)."""

    def __init__(self, *, level: int = 2, is_slow: bool = False, partitions: int = 1) -> None:
        self.level = level
        self.is_slow = is_slow
        self.partitions = partitions
        self.now_ms = 1_000
        self.logs: list[list[tuple[bytes, bytes | None]]] = [[] for _ in range(partitions)]
        self.markers: dict[TopicPartition, list[Marker]] = {}
        self.answers: dict[Any, Any] = {}
        self.appends = 0
        self.next_id = 1000
        self.token = 0
        self.effects: deque[Effect] = deque()
        #: Return the error of the next append and of the next marker.
        self.append_error: Callable[[], ErrorCode] = lambda: ErrorCode.NONE
        self.marker_error: Callable[[TopicPartition], ErrorCode] = lambda where: ErrorCode.NONE
        self.start()

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.level)

    def start(self) -> None:
        """Start a coordinator that knows what the logs have. Effects of the former are lost."""
        self.effects.clear()
        self.coordinator = TransactionCoordinator(
            max_timeout_ms=900_000, expiration_ms=EXPIRATION_MS
        )
        self.coordinator.log.partition_count = self.partitions
        for index, log in enumerate(self.logs):
            led = self.coordinator.log.begin(index, EPOCH)
            found = run(read_transactions(list(log)))
            self.take(run(self.coordinator.load(led, found, self.moment)))

    def take(self, effects: list[Effect]) -> None:
        self.effects.extend(effects)
        while self.effects and not self.is_slow:
            self.step(0)

    def step(self, at: int) -> None:
        """Perform one of the effects."""
        effect = self.effects[at]
        del self.effects[at]
        coordinator = self.coordinator
        match effect:
            case Answer():
                assert effect.asked.token not in self.answers, "it is answered once"
                self.answers[effect.asked.token] = effect.result
            case Allocate(asked):
                self.next_id += 1
                self.take(coordinator.handle(*asked, self.moment, self.next_id))
            case Append():
                error = self.append_error()
                if not error:
                    self.logs[effect.partition].append((effect.key, effect.value))
                self.appends += 1
                self.take(coordinator.on_appended(effect.number, error, self.moment))
            case WriteMarkers():
                for where in sorted(effect.partitions):
                    error = self.marker_error(where)
                    if not error:
                        producer = Producer(effect.producer_id, effect.producer_epoch)
                        self.markers.setdefault(where, []).append(Marker(producer, effect.commits))
                    self.take(coordinator.on_marked(effect.number, where, error, self.moment))
            case RetryLater(number):
                self.take(coordinator.on_retry(number, self.moment))

    def send(self, event: Event) -> int:
        """Send an event; return the token of its answer."""
        self.token += 1
        self.take(self.coordinator.handle(event, self.token, self.moment))
        return self.token

    def ask(self, event: Event) -> Any:
        return self.answers[self.send(event)]

    def init(self, name: str = "t", expected: Producer | None = None) -> ProducerResult:
        result: ProducerResult = self.ask(InitProducer(name, TIMEOUT_MS, expected))
        return result

    def producer(self, name: str = "t") -> Producer:
        error, *producer = self.init(name)
        assert not error
        return Producer(*producer)

    def add(
        self, producer: Producer, *where: TopicPartition, name: str = "t", version: int = 0
    ) -> ErrorCode:
        error: ErrorCode = self.ask(AddPartitions(name, producer, frozenset(where), version))
        return error

    def end(
        self, producer: Producer, *, commits: bool = True, name: str = "t", version: int = 2
    ) -> ProducerResult:
        result: ProducerResult = self.ask(EndTransaction(name, producer, commits, version))
        return result

    def known(self, name: str = "t") -> Transaction:
        """Return what the coordinator has in its log."""
        led = self.coordinator.log.partition_for(name)
        assert not isinstance(led, ErrorCode)
        return led.entries[name].transaction

    def skip_to_epoch(self, epoch: int, name: str = "t") -> Producer:
        """Make the producer one of a later epoch, by a record and a restart."""
        known = replace(self.known(name), producer_epoch=epoch)
        index = self.coordinator.log.partition_of(name)
        self.logs[index].append((transaction_key(name), transaction_value(known, self.level)))
        self.start()
        return known.producer

    def tick(self) -> None:
        """Abort the transactions whose time is over."""
        for event in run(self.coordinator.timed_out(self.now_ms)):
            self.send(event)

    def expire(self) -> None:
        self.take(run(self.coordinator.expire(self.moment)))

    def folded(self) -> dict[str, Transaction]:
        """Return what the logs say."""
        return {
            name: one
            for log in self.logs
            for name, one in run(read_transactions(list(log))).items()
        }
