"""Holds the state that all parts of the group coordinator share: groups, timers and effects.

It does no I/O: effects are collected here during one event or timer, and the driver
(``gateway.server.groups.group_driver``) carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from gateway.base.slices import Slices, run
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.topics import Topics
from gateway.groups.effects import (
    Answer,
    Effect,
    EventTime,
    Failure,
    GroupConverted,
    LimitExceeded,
    PendingRequest,
    Persist,
    Record,
    ResolveRegexes,
)
from gateway.groups.events import Result
from gateway.groups.group import Group, group_size
from gateway.groups.pending_offsets import PendingOffsets
from gateway.groups.records import group_tombstone
from gateway.groups.settings import ConsumerSettings, Settings
from gateway.groups.timers import Timer, Timers
from gateway.groups.usage import (
    MemoryUse,
    Usage,
    exceeded_by_group,
    exceeded_by_members,
    exceeded_by_offsets,
)


class CoordinatorState:
    """Groups, timers and collected effects. ``moment`` is the time of the event or timer that is
    being handled.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Topics,
        group_configs: Callable[[str, ConsumerSettings], ConsumerSettings],
    ) -> None:
        self.settings = settings
        self.topics = topics
        self._group_configs = group_configs
        self.groups: dict[str, Group] = {}
        self.usage = Usage()
        self.timers = Timers()
        self.pending = PendingOffsets()
        self.moment = EventTime(0.0, 0)
        self._effects: list[Effect] = []
        self._persisted = 0

    def drain_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def answer(self, asked: PendingRequest, result: Result, *seen: Group) -> None:
        """Answer ``asked`` once the records of the groups in ``seen`` are on disk."""
        self.answer_after(asked, result, max((group.persisted for group in seen), default=0))

    def answer_after(self, asked: PendingRequest, result: Result, persisted: int) -> None:
        """Answer ``asked`` once the Persist of that number is on disk."""
        self._effects.append(Answer(asked, result, persisted))

    def is_answered(self, asked: PendingRequest) -> bool:
        """True if ``asked`` was answered while this event was handled."""
        return any(isinstance(effect, Answer) and effect.asked is asked for effect in self._effects)

    def report_failure(self, what: str, group_id: str, error: Exception) -> None:
        """Report a contained exception to the driver."""
        self._effects.append(Failure(what, group_id, error))

    def report_conversion(self, group: Group) -> None:
        """Report to the driver that a group with members has changed its protocol."""
        self._effects.append(GroupConverted(group.group_id, group.type))

    def persist(
        self,
        group: Group,
        records: Sequence[Record],
        owners: Mapping[bytes, str] = MappingProxyType({}),
        *,
        producer: tuple[int, int] | None = None,
    ) -> None:
        if records:
            self._persisted += 1
            group.persisted = self._persisted
            self._effects.append(Persist(self._persisted, tuple(records), owners, producer))

    def consumer_settings(self, group_id: str) -> ConsumerSettings:
        """The settings of a consumer group, with the configs of the group itself."""
        return self._group_configs(group_id, self.settings.consumer)

    def resolve(
        self, group_id: str, regexes: tuple[str, ...], may_describe: Callable[[str], bool]
    ) -> None:
        """Ask the driver for the topics that these expressions match."""
        self._effects.append(ResolveRegexes(group_id, regexes, may_describe))

    def schedule(self, kind: str, group: Group, delay_ms: int, member_id: str = "") -> None:
        self.timers.schedule(
            Timer(kind, group.group_id, member_id), self.moment.now + delay_ms / 1000
        )

    def cancel(self, kind: str, group: Group, member_id: str = "") -> None:
        self.timers.cancel(Timer(kind, group.group_id, member_id))

    def create(self, group_id: str, owner: str) -> Group | None:
        """Create a group. Returns None if a limit refuses ``owner`` one more."""
        exceeded = exceeded_by_group(self.usage.total, self.settings, owner) or exceeded_by_members(
            self.usage.total, self.settings, MemoryUse(), {owner: group_size(group_id)}
        )
        if not self._is_within(exceeded, owner, group_id):
            return None
        group = self.groups[group_id] = Group(group_id, self.usage, self.moment.wall_ms, owner)
        return group

    def has_room_for_members(
        self, group: Group, growth: Mapping[str, int], *, members: int = 0
    ) -> bool:
        """True if limits allow ``group`` that many more members and bytes (``growth``: owner ->
        bytes).
        """
        exceeded = exceeded_by_members(self.usage.total, self.settings, group.held, growth, members)
        return self._is_within(exceeded, next(iter(growth), ""), group.group_id)

    def has_room_for_offsets(
        self, group: Group, owner: str, growth: int, owner_growth: int
    ) -> bool:
        """True if limits allow the group's offsets ``growth`` more bytes, of which ``owner`` is
        charged ``owner_growth``.
        """
        held = group.held.offset_bytes
        exceeded = exceeded_by_offsets(
            self.usage.total, self.settings, held, owner, growth, owner_growth
        )
        return self._is_within(exceeded, owner, group.group_id)

    def _is_within(self, exceeded: str | None, owner: str, group_id: str) -> bool:
        if exceeded is not None:
            self._effects.append(LimitExceeded(exceeded, owner, group_id))
        return exceeded is None

    def schedule_once(self, kind: str, group: Group, delay_ms: int, member_id: str = "") -> None:
        """Set a timer that is not set already."""
        if Timer(kind, group.group_id, member_id) not in self.timers:
            self.schedule(kind, group, delay_ms, member_id)

    def become_consumer(self, group: Group, consumer: ConsumerGroup) -> Slices[list[Record]]:
        """Make a classic group a consumer group. Returns the tombstone of what it was."""
        self._drop_pending(group)
        was_stored = group.is_stored
        yield from group.forget_members()
        group.consumer = consumer
        return [group_tombstone(group.group_id)] if was_stored else []

    def become_classic(self, group: Group) -> None:
        """Make a consumer group without members a classic one."""
        records = _consumer_tombstones(group)
        run(self.end_consumer(group))
        self.persist(group, records)

    def end_consumer(self, group: Group) -> Slices[None]:
        """Make a consumer group a classic one without members. The caller writes its tombstones."""
        yield from group.ledger.discard(group.charge)
        group.consumer = None

    def _drop_pending(self, group: Group) -> None:
        for member_id in list(group.pending_members):
            self.cancel("heartbeat", group, member_id)
            group.remove_pending(member_id)

    def forget(self, group: Group, records: list[Record]) -> None:
        """Remove a group without members; ``records`` gets its tombstones if the group was ever
        written.
        """
        self._drop_pending(group)
        records += _consumer_tombstones(group)
        run(self.end_consumer(group))
        group.discard()
        del self.groups[group.group_id]
        if group.is_stored:
            records.append(group_tombstone(group.group_id))

    def forget_if_blank(self, group: Group) -> None:
        """Remove an empty group that was never written to disk.

        Kafka writes a record of every new group and keeps it until the next expiry, ten minutes
        later: a client that asks for member ids in ever new groups would fill the table.
        """
        if group.is_blank and not group.is_stored and group.generation == 0:
            self.forget(group, [])


def _consumer_tombstones(group: Group) -> list[Record]:
    consumer = group.consumer
    return [] if consumer is None else [record.encode() for record in consumer.tombstones()]
