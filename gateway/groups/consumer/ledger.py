"""Counts the memory that a consumer group's records take, by record and by owner.

The state of a group is what its records say, so their sizes bound it. Nothing here is in the log
but the owners, which the store keeps beside the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from gateway.base.slices import Slices

if TYPE_CHECKING:
    from gateway.groups.effects import Record

#: Memory of a record besides its bytes: objects and dict entries.
_OVERHEAD: Final = 500
#: Memory of a byte of a value. A partition is four bytes there, and an entry of a dict and a number
#: here, in the target and in what the member has.
_FACTOR: Final = 10
NO_OWNERS: Final[Mapping[bytes, str]] = MappingProxyType({})
#: How the key of a member's subscription begins.
_MEMBER: Final = b"\0\x05"


class Charge(Protocol):
    """Counts memory for ``owner`` (``Group.charge``)."""

    def __call__(self, owner: str, *, members: int = 0, member_bytes: int = 0) -> None: ...


class Ledger:
    """The records of one group, with their sizes and owners. It does not refer to the group, which
    has it: a cycle would keep a deleted group until the collector comes.
    """

    def __init__(self) -> None:
        self._sizes: dict[bytes, tuple[int, str]] = {}

    def growth(
        self, records: Iterable[Record], owner: str, owners: Mapping[bytes, str] = NO_OWNERS
    ) -> tuple[Counter[str], int]:
        """How much more memory these records take than those of their keys now, by owner, and how
        many more members they are. ``owners``: key of a new record -> its owner, if not ``owner``.
        """
        growth: Counter[str] = Counter()
        members = 0
        for key, value in dict(records).items():
            size, charged = self._sizes.get(key, (0, owners.get(key, owner)))
            members += _members(key, value) - (key in self._sizes and _members(key, b""))
            growth[charged] -= size
            if value is not None:
                growth[charged] += _size(key, value)
        return growth, members

    def apply(
        self,
        charge: Charge,
        records: Iterable[Record],
        owner: str,
        owners: Mapping[bytes, str] = NO_OWNERS,
    ) -> dict[bytes, str]:
        """Charge the group for these records. Returns the owner of each that is not deleted."""
        after_all = {}
        for key, value in records:
            members = _members(key, value) - (key in self._sizes and _members(key, b""))
            size, charged = self._sizes.pop(key, (0, owners.get(key, owner)))
            after = 0 if value is None else _size(key, value)
            charge(charged, members=members, member_bytes=after - size)
            if value is not None:
                self._sizes[key] = after, charged
                after_all[key] = charged
            else:
                after_all.pop(key, None)
        return {key: charged for key, charged in after_all.items() if charged}

    def owner_of(self, key: bytes) -> str:
        """The owner of the record with that key; "" if it is unknown."""
        return self._sizes.get(key, (0, ""))[1]

    def discard(self, charge: Charge) -> Slices[None]:
        """Give all memory back: the group is removed, or a classic one."""
        while self._sizes:
            key, (size, owner) = self._sizes.popitem()
            charge(owner, members=-_members(key, b""), member_bytes=-size)
            yield


def _size(key: bytes, value: bytes) -> int:
    return _OVERHEAD + len(key) + _FACTOR * len(value)


def _members(key: bytes, value: bytes | None) -> int:
    """1 if the record is that of a member, and does not delete it."""
    return int(value is not None and key.startswith(_MEMBER))
