"""Simulates producers: idempotent ones, and some that wait for no replica.

An idempotent producer has five batches in flight at most, sends them in order over one connection,
and sends one again only when it is the oldest: what Kafka's does, so that a leader that knows
nothing of the producer gets its batches from the first one on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.produce.producer_state import BATCHES_MAX
from kwire.protocol import ErrorCode
from tests.sim.brokers.messages import Key, Produce, Produced
from tests.sim.brokers.partition_log import Entry, batch
from tests.sim.brokers.processes import SimulatedProcess
from tests.sim.history import require

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

TIMEOUT_S: Final = 2.5
BACKOFF_S: Final = 0.1


class UnsureProducer(SimulatedProcess):
    """A client that writes with acks 0 or 1, each batch once."""

    def __init__(self, world: BrokerWorld, id: int, key: Key) -> None:
        super().__init__(world, id)
        self.key = key
        self.count = 0
        self.target: int | None = None
        self._leader_epoch = -1
        self.is_over = False

    def __str__(self) -> str:
        return f"producer {self.id}"

    def on_start(self) -> None:
        self._next()

    @property
    def is_idle(self) -> bool:
        """Whether it waits for nothing."""
        return True

    def _next(self) -> None:
        if not self.is_over:
            self._produce()
        self.after((0.2 + 1.6 * self.chance(1)) / self.world.shape.batches_per_s, self._next)

    def _produce(self) -> None:
        target = self.find_leader()
        if target is not None:
            message = Produce(self.key, batch(self.values(), self.wall_ms), 1)
            self.call(target, message, TIMEOUT_S, self._heard)

    def find_leader(self) -> int | None:
        """Where the leader is, as far as it is known."""
        if self.target is None:
            place, self._leader_epoch = self.world.leader_as_told(
                self, self.key, self._leader_epoch
            )
            self.target = None if place < 0 else place
        return self.target

    def values(self) -> list[str]:
        """Values for a new batch."""
        first = self.count
        self.count += 1 + int(self.chance(2) * 3)
        return [f"{self.id}/{n}" for n in range(first, self.count)]

    def _heard(self, answer: Produced | None) -> None:
        if answer is None or answer.error is not ErrorCode.NONE:
            self.target = None


class Producer(UnsureProducer):
    """An idempotent client with acks=all."""

    def __init__(self, world: BrokerWorld, id: int, key: Key) -> None:
        super().__init__(world, id, key)
        self.epoch = 0
        self.sequence = 0
        #: Batches that are not acknowledged, the oldest first.
        self.in_flight: list[Entry] = []
        #: First sequences of the batches since the oldest of these: a leader knows five.
        self._begun: list[int] = []
        self._asked: set[int] = set()  # first sequences of those that are on their way
        self._tried: set[int] = set()
        self._connection = 1
        #: Whether a batch of this epoch is acknowledged. A leader that knows nothing of the
        #: producer takes any sequence for the first.
        self._is_known = False

    @property
    def is_idle(self) -> bool:
        return not self.in_flight

    @property
    def may_produce(self) -> bool:
        """Whether one more batch may be in flight."""
        return len(self._begun) < BATCHES_MAX

    # --- batches

    def _next(self) -> None:
        self.drain()  # there may be a leader now
        super()._next()

    def _produce(self) -> None:
        if self.may_produce:
            self.add(transactional=False)

    def add(self, *, transactional: bool) -> Entry:
        """Make a new batch, and send it when it is its turn."""
        producer = self.id, self.epoch, self.sequence
        entry = batch(self.values(), self.wall_ms, producer, transactional=transactional)
        self.sequence += len(entry.values)
        self.in_flight.append(entry)
        self._begun.append(entry.header.base_sequence)
        self.world.checker.sends(self.key, entry)
        self.drain()
        return entry

    def drain(self) -> None:
        """Send what may be sent."""
        for entry in self.in_flight:
            sequence = entry.header.base_sequence
            if sequence in self._asked:
                continue
            if self.target is None and self._asked:
                return  # what is on its way to the former leader comes back first
            is_first = entry is self.in_flight[0]
            target = self.find_leader()
            is_early = sequence in self._tried or not self._is_known
            if target is None or (is_early and not is_first):
                return
            self._send(entry, target, is_first=is_first)

    def _send(self, entry: Entry, target: int, *, is_first: bool) -> None:
        sequence, connection = entry.header.base_sequence, self._connection
        self._asked.add(sequence)
        self._tried.add(sequence)

        def heard(answer: Produced | None) -> None:
            if self._connection == connection and entry in self.in_flight:
                self._asked.discard(sequence)
                self._take(entry, answer, is_first=is_first)

        self.call(target, Produce(self.key, entry, -1), TIMEOUT_S, heard, connection)

    def _take(self, entry: Entry, answer: Produced | None, *, is_first: bool) -> None:
        if answer is None:
            self._reconnect()
        elif answer.error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._done(entry, answer.offset)
        elif answer.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and is_first:
            self._out_of_order(entry)
        else:
            require(
                answer.error is not ErrorCode.INVALID_PRODUCER_EPOCH,
                "6: producer {} is taken for an old one",
                self.id,
            )
            if answer.error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.target = None
            self.after(BACKOFF_S * (0.5 + self.chance(3)), self.drain)

    def _out_of_order(self, entry: Entry) -> None:
        """A leader refuses a batch, and all before it were acknowledged when it was sent."""
        checker = self.world.checker
        if not checker.is_known_by_its_newest(self.key, entry):
            checker.lost_order(self.key, self.id, entry)
            self.begin_epoch()
        elif checker.has_committed(self.key, entry):
            self._done(entry, -1)
        else:
            self.after(BACKOFF_S, self.drain)

    def _reconnect(self) -> None:
        """The connection is gone, with everything that was on its way."""
        self._connection += 1
        self._asked.clear()
        self.target = None
        self.after(BACKOFF_S * (0.5 + self.chance(3)), self.drain)

    def _done(self, entry: Entry, offset: int) -> None:
        self.in_flight.remove(entry)
        self._is_known = True
        oldest = self.in_flight[0].header.base_sequence if self.in_flight else self.sequence
        self._begun = [one for one in self._begun if one >= oldest]
        self.world.note("%s: %s is at %d", self, entry.values, offset)
        self.world.checker.acknowledged(self.key, entry, offset)
        self.drain()

    def begin_epoch(self) -> None:
        """Number what is in flight anew, as a producer does that has lost its place."""
        self.epoch += 1
        self.sequence = 0
        renumbered = []
        for entry in self.in_flight:
            header = entry.header._replace(producer_epoch=self.epoch, base_sequence=self.sequence)
            self.sequence += len(entry.values)
            renumbered.append(entry._replace(header=header))
        self.in_flight = renumbered
        self._begun = [one.header.base_sequence for one in renumbered]
        self._tried.clear()
        self._is_known = False
        self._reconnect()
