"""Simulates transactional producers and their coordinator, which decides about a transaction and
then writes its marker until it is committed.

The coordinator is not the server's: it is a process that never fails, with the epochs of
``transaction.version`` 2 (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.broker.produce.marker import Marker
from kwire.protocol import ErrorCode
from tests.sim.brokers.messages import Key, Produce
from tests.sim.brokers.partition_log import batch
from tests.sim.brokers.producers import BACKOFF_S, TIMEOUT_S, Producer

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld


class TransactionalProducer(Producer):
    """A producer whose batches are in transactions, each with an epoch of its own."""

    def __init__(self, world: BrokerWorld, id: int, key: Key) -> None:
        super().__init__(world, id, key)
        self._left = 0  # batches that the transaction still gets
        self._is_ending = False

    @property
    def is_idle(self) -> bool:
        is_between = self._left == 0 and self.sequence == 0
        return not self.in_flight and not self._is_ending and is_between

    def _next(self) -> None:
        self.drain()
        if self.is_over:
            self._left = 0
        if not self._is_ending:
            if self._left > 0:
                self._produce()
            elif not self.in_flight and self.sequence:
                self._end()
            elif not self.in_flight and not self.is_over:
                self._left = 1 + int(self.chance(5) * 4)
        self.after((0.2 + 1.6 * self.chance(1)) / self.world.shape.batches_per_s, self._next)

    def _produce(self) -> None:
        if self.may_produce:
            self._left -= 1
            entry = self.add(transactional=True)
            self.world.checker.in_transaction(self.id, self.epoch, entry.values)

    def _end(self) -> None:
        self._is_ending = True
        is_commit = self.chance(4) < 0.6
        # The coordinator decides before it writes any marker.
        self.world.checker.decides(self.id, self.epoch, is_commit=is_commit)
        self._write_marker(is_commit=is_commit)

    def _write_marker(self, *, is_commit: bool) -> None:
        """Write the marker, with the next epoch, until it is committed."""
        target = self.find_leader()

        def again() -> None:
            self._write_marker(is_commit=is_commit)

        def heard(answer: Any) -> None:
            if answer is not None and answer.error is ErrorCode.NONE:
                self._begin_next()
            else:
                self.target = None
                self.after(BACKOFF_S, again)

        if target is None:
            self.after(BACKOFF_S, again)
            return
        what = "commit" if is_commit else "abort"
        marker = batch(
            [f"{self.id}/{what}/{self.epoch}"],
            self.wall_ms,
            (self.id, self.epoch + 1, -1),
            transactional=True,
            marker=Marker(is_commit, 1),
        )
        self.call(target, Produce(self.key, marker, -1), TIMEOUT_S, heard)

    def _begin_next(self) -> None:
        self.epoch += 1
        self.sequence, self._is_ending = 0, False
        self._tried.clear()
        self._is_known = False
        self._begun = []

    def begin_epoch(self) -> None:
        """The partition has lost records of the transaction: give up."""
        self.is_over = True
        self.in_flight, self.sequence, self._left, self._begun = [], 0, 0, []
