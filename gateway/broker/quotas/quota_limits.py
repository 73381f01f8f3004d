"""Finds the quota of a client among those of users, client ids and their defaults
(``DefaultQuotaCallback``).

The most special one counts: first those of a user and a client id, then those of a user, then those
of a client id; a name before the default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kwire.cluster.image import QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
#: Stands for all names of a kind that have no quota of their own.
_DEFAULT: Final = None
#: Stands for a quota that does not depend on the kind.
_ANY: Final = object()


class Group(NamedTuple):
    """Clients that are measured together: ``user`` or ``client_id`` is empty for all of them."""

    user: str
    client_id: str


class QuotaLimits:
    """The quotas of one kind, such as ``producer_byte_rate``, by entity."""

    def __init__(self) -> None:
        self._limits: dict[tuple[object, object], float] = {}

    def __bool__(self) -> bool:
        return bool(self._limits)

    def set(self, entity: QuotaEntity, limit: float | None) -> None:
        """Set the quota of an entity, or remove it with None. One of addresses is left out."""
        kinds = dict(entity)
        if not kinds or not kinds.keys() <= {USER, CLIENT_ID}:
            return
        key = kinds.get(USER, _ANY), kinds.get(CLIENT_ID, _ANY)
        if limit is None:
            self._limits.pop(key, None)
        else:
            self._limits[key] = limit

    def find(self, user: str, client_id: str) -> tuple[Group, float] | None:
        """Return the quota of a client, and the group that it is for; None if it has none.

        ``client_id`` is empty for a client that gives none: quotas of client ids are not for it.
        """
        limits = self._limits
        by_client = (client_id, _DEFAULT) if client_id else ()
        for user_key in (user, _DEFAULT):
            for client_key in by_client:
                limit = limits.get((user_key, client_key))
                if limit is not None:
                    return Group(user, client_id), limit
            limit = limits.get((user_key, _ANY))
            if limit is not None:
                return Group(user, ""), limit
        for client_key in by_client:
            limit = limits.get((_ANY, client_key))
            if limit is not None:
                return Group("", client_id), limit
        return None


def user_of(principal: str) -> str:
    """The name of a principal, without its type."""
    return principal.partition(":")[2]
