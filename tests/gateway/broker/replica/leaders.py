"""A leader with followers, for tests of what it decides."""

from __future__ import annotations

from typing import Any

from gateway.broker.replica.follower_state import Contact
from gateway.broker.replica.isr import Altered, Proposal
from gateway.broker.replica.leader import Leader, LeaderSettings
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord

LAG_S = 30.0


class World:
    """Broker 1 leads a partition with the replicas 1, 2 and 3; the broker epochs are 100 + id."""

    def __init__(
        self, isr: tuple[int, ...] = (1, 2, 3), *, min_isr: int = 1, end: int = 10
    ) -> None:
        self.now = 1000.0
        self.min_isr = min_isr
        self.brokers = {
            one: RegisterBrokerRecord(broker_id=one, broker_epoch=100 + one, fenced=False)
            for one in (1, 2, 3)
        }
        settings = LeaderSettings(LAG_S, lambda: self.min_isr, self.brokers.get, lambda: 101)
        self.leader = Leader(1, settings, 0)
        self.lead(1, isr, end=end)

    def lead(self, epoch: int, isr: tuple[int, ...], end: int | None = None, **more: Any) -> None:
        """Take a record of the image."""
        more.setdefault("replicas", [1, 2, 3])
        more.setdefault("partition_epoch", self.leader.partition_epoch + 1)
        record = PartitionRecord(leader=1, leader_epoch=epoch, isr=list(isr), **more)
        self.leader.lead(record, self.leader.end_offset if end is None else end, self.now)

    def fetch(self, broker: int, offset: int, **more: Any) -> Proposal | None:
        """A follower fetches from ``offset``."""
        epoch = more.pop("epoch", 100 + broker)
        contact = more.pop("contact", None) or Contact(self.now)
        assert self.leader.check_follower(broker, epoch) == 0
        start, is_compared = more.pop("start", 0), more.pop("is_compared", False)
        return self.leader.on_fetch(broker, epoch, offset, start, contact, is_compared=is_compared)

    def append(self, end: int) -> None:
        """The leader's log grows."""
        self.leader.on_appended(end, self.now)

    def altered(self, proposal: Proposal, **more: Any) -> Altered:
        """The controller's answer that agrees."""
        isr = frozenset(one.broker_id for one in proposal.requested)
        more.setdefault("partition_epoch", proposal.partition_epoch + 1)
        return Altered(proposal.leader_epoch, isr=isr, recovery_state=0, **more)
