"""Counts the memory of groups in all, by group and by owner, and checks the limits on it.

An owner is the principal of the request that added something, or the address of a client that did
not authenticate. Memory of members (subscriptions, assignments, the group itself) is counted apart
from that of committed offsets, which stay for days. Kafka has no such limits. Sizes are bytes,
about. This module changes no group and answers no request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.groups.settings import Settings

#: Keys of the configuration, as log lines and metrics name them.
GROUPS_MAX: Final = "groups.max"
GROUPS_MAX_PER_PRINCIPAL: Final = "groups.max.per.principal"
MEMBERS_MAX: Final = "groups.members.max"
MEMBERS_MAX_PER_PRINCIPAL: Final = "groups.members.max.per.principal"
BYTES_MAX: Final = "groups.bytes.max"
BYTES_MAX_PER_PRINCIPAL: Final = "groups.bytes.max.per.principal"
BYTES_MAX_PER_GROUP: Final = "groups.bytes.max.per.group"


@dataclass(slots=True)
class MemoryUse:
    """Counts of groups and of members, pending ids included; bytes of members and of offsets."""

    groups: int = 0
    members: int = 0
    member_bytes: int = 0
    offset_bytes: int = 0

    @property
    def bytes(self) -> int:
        return self.member_bytes + self.offset_bytes

    def add(self, groups: int, members: int, member_bytes: int, offset_bytes: int) -> None:
        self.groups += groups
        self.members += members
        self.member_bytes += member_bytes
        self.offset_bytes += offset_bytes

    def __bool__(self) -> bool:
        return bool(self.groups or self.members or self.member_bytes or self.offset_bytes)


@dataclass(slots=True)
class Usage(MemoryUse):
    """Memory of the groups of one coordinator, or of all, and of each owner. The owner "" is
    unknown and has no own limit.
    """

    by_owner: dict[str, MemoryUse] = field(default_factory=dict)
    _total: Usage | None = None

    @property
    def total(self) -> Usage:
        """The memory that limits apply to: that of all coordinators that share it."""
        return self if self._total is None else self._total

    def join(self, total: Usage) -> None:
        """Count in ``total`` too, from now on and what was counted before."""
        self._total = total
        self._count_all_in(total, 1)

    def leave(self) -> None:
        """Take everything out of the total: the groups are gone."""
        total, self._total = self._total, None
        if total is not None:
            self._count_all_in(total, -1)

    def _count_all_in(self, total: Usage, sign: int) -> None:
        known = MemoryUse()
        for owner, held in self.by_owner.items():
            known.add(held.groups, held.members, held.member_bytes, held.offset_bytes)
            total.count(
                owner,
                groups=sign * held.groups,
                members=sign * held.members,
                member_bytes=sign * held.member_bytes,
                offset_bytes=sign * held.offset_bytes,
            )
        total.count(
            "",
            groups=sign * (self.groups - known.groups),
            members=sign * (self.members - known.members),
            member_bytes=sign * (self.member_bytes - known.member_bytes),
            offset_bytes=sign * (self.offset_bytes - known.offset_bytes),
        )

    def count(
        self,
        owner: str,
        *,
        groups: int = 0,
        members: int = 0,
        member_bytes: int = 0,
        offset_bytes: int = 0,
    ) -> None:
        """Add to the totals and to those of ``owner``; negative numbers subtract."""
        self.add(groups, members, member_bytes, offset_bytes)
        if owner:
            held = self.by_owner.get(owner)
            if held is None:
                held = self.by_owner[owner] = MemoryUse()
            held.add(groups, members, member_bytes, offset_bytes)
            if not held:
                del self.by_owner[owner]
        if self._total is not None:
            self._total.count(
                owner,
                groups=groups,
                members=members,
                member_bytes=member_bytes,
                offset_bytes=offset_bytes,
            )

    def of(self, owner: str) -> MemoryUse:
        """The memory that ``owner`` holds, read-only."""
        return self.by_owner.get(owner, _NOTHING)


_NOTHING: Final = MemoryUse()


def exceeded_by_group(usage: Usage, limits: Settings, owner: str) -> str | None:
    """The key of the limit that one more group of ``owner`` would exceed, or None."""
    if usage.groups >= limits.groups_max:
        return GROUPS_MAX
    if owner and usage.of(owner).groups >= limits.groups_max_per_principal:
        return GROUPS_MAX_PER_PRINCIPAL
    return None


def exceeded_by_members(
    usage: Usage, limits: Settings, held: MemoryUse, growth: Mapping[str, int], members: int = 0
) -> str | None:
    """The key of the limit that members of one group would exceed, or None.

    ``held`` is the group's memory, ``growth`` bytes by owner, ``members`` the number of new
    members. A group within its reserve (groups.bytes.reserved.per.group) is never refused because
    of other groups.
    """
    total = sum(growth.values())
    after = held.member_bytes + total
    if total > 0 and after > limits.bytes_max_per_group:
        return BYTES_MAX_PER_GROUP
    if after <= limits.bytes_reserved_per_group or (total <= 0 and members <= 0):
        return None
    if members > 0 and usage.members + members > limits.members_max:
        return MEMBERS_MAX
    if total > 0 and usage.member_bytes + total > limits.bytes_max:
        return BYTES_MAX
    for owner, bytes_ in growth.items():
        share = usage.of(owner)
        if owner and members > 0 and share.members + members > limits.members_max_per_principal:
            return MEMBERS_MAX_PER_PRINCIPAL
        if owner and bytes_ > 0 and share.member_bytes + bytes_ > limits.bytes_max_per_principal:
            return BYTES_MAX_PER_PRINCIPAL
    return None


def exceeded_by_offsets(
    usage: Usage, limits: Settings, held_bytes: int, owner: str, growth: int, owner_growth: int
) -> str | None:
    """The key of the limit that offsets of one group would exceed, or None.

    ``held_bytes`` is the memory of the group's offsets, ``growth`` its increase, ``owner_growth``
    the increase of the owner's share. A commit without growth is always allowed.
    """
    if growth <= 0:
        return None
    after = held_bytes + growth
    if after > limits.bytes_max_per_group:
        return BYTES_MAX_PER_GROUP
    if after <= limits.bytes_reserved_per_group:
        return None
    if usage.offset_bytes + growth > limits.bytes_max:
        return BYTES_MAX
    if owner and usage.of(owner).offset_bytes + owner_growth > limits.bytes_max_per_principal:
        return BYTES_MAX_PER_PRINCIPAL
    return None
