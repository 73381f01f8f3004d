"""Simulates consumers: they read what is committed, or only committed transactions, from leaders
and sometimes from followers, and tell the checker what they saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.protocol import ErrorCode
from tests.sim.brokers.messages import Consume, Consumed, Key
from tests.sim.brokers.processes import SimulatedProcess

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

_TIMEOUT_S: Final = 1.0


class Consumer(SimulatedProcess):
    """A client that reads one partition from its beginning on."""

    def __init__(
        self, world: BrokerWorld, id: int, key: Key, *, read_committed: bool, closest: bool
    ) -> None:
        super().__init__(world, id)
        self.key, self.read_committed, self.closest = key, read_committed, closest
        self.offset = 0
        self.target: int | None = None
        self._leader_epoch = -1

    def __str__(self) -> str:
        return f"consumer {self.id}"

    def on_start(self) -> None:
        self._read()

    def _read(self) -> None:
        if self.target is None:
            self.target = self._find()
        if self.target is None:
            self.after(0.2, self._read)
            return
        asked = Consume(self.key, self.offset, self.read_committed, self.closest)
        self.call(self.target, asked, _TIMEOUT_S, self._heard)

    def _find(self) -> int | None:
        if self.closest and self.chance(1) < 0.7:
            return self.world.any_replica(self, self.key)
        place, self._leader_epoch = self.world.leader_as_told(self, self.key, self._leader_epoch)
        return None if place < 0 else place

    def _heard(self, answer: Consumed | None) -> None:
        if answer is None or answer.error is not ErrorCode.NONE:
            self.target = None
            if answer is not None and 0 <= self.offset < answer.start_offset:
                self.offset = answer.start_offset
            self.after(0.1, self._read)
            return
        checker = self.world.checker
        for entry in answer.entries:
            header = entry.header
            if header.base_offset < self.offset:
                continue
            checker.seen(self.key, entry)
            is_aborted = any(
                one.producer_id == header.producer_id
                and one.first_offset <= header.base_offset <= one.last_offset
                for one in answer.aborted
            )
            if self.read_committed and entry.marker is None and not is_aborted:
                checker.delivers(self.key, entry)
            self.offset = header.next_offset
        self.after(0.05 if answer.entries else 0.25, self._read)
