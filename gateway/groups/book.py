"""What every part of the coordinator works on: the groups, their timers, and the effects of the step that is under way."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.groups.effects import Answer, Asked, Effect, Moment, Persist, Record
from gateway.groups.events import Result
from gateway.groups.group import Group, Usage
from gateway.groups.records import group_tombstone
from gateway.groups.settings import Settings
from gateway.groups.timers import Timer, Timers


class Book:
    """``moment`` is that of the step under way."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.usage = Usage()
        self.timers = Timers()
        self.moment = Moment(0.0, 0)
        self._effects: list[Effect] = []
        self._persisted = 0

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def answer(self, asked: Asked, result: Result, *seen: Group) -> None:
        """Answer; not before what was written of the groups that the answer shows is on disk."""
        self._effects.append(Answer(asked, result, max((group.persisted for group in seen), default=0)))

    def persist(self, group: Group, records: Sequence[Record]) -> None:
        if records:
            self._persisted += 1
            group.persisted = self._persisted
            self._effects.append(Persist(self._persisted, tuple(records)))

    def schedule(self, kind: str, group: Group, delay_ms: int, member_id: str = "") -> None:
        self.timers.schedule(Timer(kind, group.group_id, member_id), self.moment.now + delay_ms / 1000)

    def cancel(self, kind: str, group: Group, member_id: str = "") -> None:
        self.timers.cancel(Timer(kind, group.group_id, member_id))

    def create(self, group_id: str) -> Group | None:
        """A new group of that id; None when there are too many already."""
        limits = self.settings
        if len(self.groups) >= limits.groups_max or self.usage.bytes >= limits.bytes_max:
            return None
        group = self.groups[group_id] = Group(group_id, self.usage, self.moment.wall_ms)
        return group

    def has_room(self, group: Group, growth: int, *, members: int = 0) -> bool:
        """May ``group`` have so many more members and grow by so many bytes?"""
        limits = self.settings
        return (
            self.usage.members + members <= limits.members_max
            and self.usage.bytes + growth <= limits.bytes_max
            and group.bytes + growth <= limits.group_bytes_max
        )

    def forget(self, group: Group, records: list[Record]) -> None:
        """Drop a group without members; ``records`` gets its tombstone if it was ever written."""
        for member_id in group.pending_members:
            self.cancel("heartbeat", group, member_id)
        group.discard()
        del self.groups[group.group_id]
        if group.is_stored:
            records.append(group_tombstone(group.group_id))

    def forget_if_blank(self, group: Group) -> None:
        """Drop a group of which nothing was ever written and nothing is left.

        Kafka writes a record of every new group and keeps it until its next round of expiry, ten minutes: anybody who asks
        for member ids under ever new names would fill the table with them.
        """
        if group.is_blank and not group.is_stored and group.generation == 0:
            self.forget(group, [])
