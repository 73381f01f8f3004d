"""Follows the leaders of partitions at a simulated broker: one fetcher for each other broker, with
the server's ``Fetcher``, whose steps it carries out on the logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.replica.fetcher import Fetcher, FetcherSettings
from gateway.broker.replica.followed import (
    Append,
    CutTo,
    Followed,
    Locate,
    Position,
    StartAt,
    Step,
    Truncate,
)
from gateway.broker.replica.truncation import truncation_target
from kwire.protocol import ErrorCode
from tests.sim.brokers.messages import FindOffsets, FoundOffsets, Key

if TYPE_CHECKING:
    from kwire.messages.fetch_response import FetchResponse
    from tests.sim.brokers.broker import Broker
    from tests.sim.brokers.partition_log import PartitionLog

_SETTINGS: Final = FetcherSettings(max_wait_ms=300, backoff_s=0.2)
_TIMEOUT_S: Final = 1.5


def position_of(log: PartitionLog) -> Position:
    """Where a log is."""
    return Position(log.start_offset, log.end_offset, log.last_epoch)


class SourceFetcher:
    """Fetches from the broker ``source``."""

    def __init__(self, broker: Broker, source: int) -> None:
        self.broker, self.source = broker, source
        self.core = Fetcher(broker.id, _SETTINGS)
        self._is_asking = False
        self._is_due = False

    def follow(self, key: Key, leader_epoch: int) -> None:
        """Follow a partition in this leader epoch, from where its log is."""
        self.core.follow(*key, leader_epoch, position_of(self.broker.logs[key]))
        self.ask()

    def ask(self) -> None:
        """Send the next request if it is time."""
        if self._is_asking:
            return
        broker = self.broker
        request = self.core.request(broker.now, broker.lifecycle.epoch)
        if request is None:
            wait = self.core.deadline() - broker.now
            if 0.0 < wait < 100.0 and not self._is_due:
                self._is_due = True
                broker.after(wait + 0.001, self._due)
            return
        self._is_asking = True
        broker.call(self.source, request, _TIMEOUT_S, self._answered)

    def _due(self) -> None:
        self._is_due = False
        self.ask()

    def _answered(self, response: FetchResponse | None) -> None:
        self._is_asking = False
        now = self.broker.now
        if response is None:
            self.core.failed(now)
        else:
            for step in self.core.answered(response, now):
                self._later(step)
        self.ask()

    def _later(self, step: Step) -> None:
        """Carry out a step when the disk is ready."""
        wait = self.broker.world.flush_s(self.broker) if self.broker.chance(2) < 0.5 else 0.0
        self.broker.after(wait, lambda: self._carry_out(step))

    def _carry_out(self, step: Step) -> None:
        one = step.followed
        replica = self.broker.replicas.get(one.key)
        if replica is None or replica.leader is not None or not self.core.is_current(one):
            return
        log = replica.log
        if isinstance(step, Append):
            replica.append_as_follower(
                step.records or (),
                step.high_watermark,
                step.log_start_offset,
                is_compared=step.is_compared,
            )
        elif isinstance(step, Truncate):
            target = truncation_target(
                log.epochs.entries, log.end_offset, step.leaders_epoch, step.leaders_end
            )
            if not replica.truncate(target):
                self.core.back_off(one, self.broker.now)
                self.ask()
                return
        elif isinstance(step, CutTo):
            replica.truncate(step.offset)
        elif isinstance(step, StartAt):
            replica.start_at(step.offset)
        elif isinstance(step, Locate):
            self._locate(one)
            return
        self.core.positioned(one, position_of(replica.log))
        self.ask()

    def _locate(self, one: Followed) -> None:
        def found(answer: FoundOffsets | None) -> None:
            if not self.core.is_current(one):
                return
            if answer is None or answer.error is not ErrorCode.NONE:
                self.core.back_off(one, self.broker.now)
            else:
                step = self.core.located(one, answer.start, answer.end)
                if step is not None:
                    self._later(step)
                    return
                self.core.positioned(one, position_of(self.broker.logs[one.key]))
            self.ask()

        asked = FindOffsets(one.key, one.leader_epoch)
        self.broker.call(self.source, asked, _TIMEOUT_S, found)


class Fetchers:
    """All fetchers of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_source: dict[int, SourceFetcher] = {}
        self._source_of: dict[Key, int] = {}

    def follow(self, key: Key, source: int, leader_epoch: int) -> None:
        """Follow ``source``, which leads the partition in this epoch."""
        fetcher = self._by_source.get(source)
        if self._source_of.get(key) == source and fetcher is not None:
            known = fetcher.core.find(*key)
            if known is not None and known.leader_epoch == leader_epoch:
                return
        self.stop(key, but=source)
        if fetcher is None:
            fetcher = self._by_source[source] = SourceFetcher(self._broker, source)
        self._source_of[key] = source
        fetcher.follow(key, leader_epoch)

    def stop(self, key: Key, but: int | None = None) -> None:
        """Follow the partition no more."""
        source = self._source_of.get(key)
        if source is not None and source != but:
            del self._source_of[key]
            self._by_source[source].core.unfollow(*key)
