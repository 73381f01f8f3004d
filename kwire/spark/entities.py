"""Names the entity that a metadata record describes: its kind, and a key that is unique in that
kind. A record and the one that removes the entity have the same key. It does not know Spark or
Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kwire.cluster.entities import RECORD_TYPES
from kwire.cluster.image import CONFIG_TYPES
from kwire.cluster.kind import RecordType
from kwire.records import metadata_record_name

#: Stands where a quota or a config is the default for all of its kind.
DEFAULT: Final = "<default>"
_QUOTA: Final = "CLIENT_QUOTA_RECORD"


class About(NamedTuple):
    """The kind of entity, and the JSON names of the fields that make its key, with colons between;
    none if there is only one such entity.
    """

    entity: str
    fields: tuple[str, ...] = ()


def _about(row: RecordType) -> About:
    names = {field.attr: field.json for field in row.record.fields()}
    key = row.key if row.shown_key is None else row.shown_key
    return About(row.about, tuple(names[attribute] for attribute in key))


#: By record type. ``CLIENT_QUOTA_RECORD`` makes its key otherwise.
ABOUT: Final[Mapping[str, About]] = {
    metadata_record_name(row.record): _about(row) for row in RECORD_TYPES
}
ENTITIES: Final = tuple(sorted({about.entity for about in ABOUT.values()}))


def record_types_of(entity: str) -> tuple[str, ...]:
    """The record types about ``entity``, none for an unknown entity."""
    return tuple(name for name, about in ABOUT.items() if about.entity == entity)


def key_of(record_type: str, data: Mapping[str, Any]) -> str | None:
    """The key of a record of ``record_type`` with the members ``data`` (JSON form); None for a kind
    with only one entity.
    """
    fields = ABOUT[record_type].fields
    if not fields:
        return None
    if record_type == _QUOTA:
        return quota_key(data["entity"])
    return ":".join(part(name, data[name]) for name in fields)


def part(field: str, value: Any) -> str:
    """The part of a key for ``value`` of ``field``."""
    if field == "resourceType":
        return CONFIG_TYPES.get(value, str(value)).lower()
    if field == "resourceName":
        return value or DEFAULT
    return str(value)


def quota_key(entity: Sequence[Mapping[str, Any]]) -> str:
    """``client-id=app,user=alice``: the same in whichever order they were written."""
    return ",".join(
        sorted(
            f"{one['entityType']}={DEFAULT if one['entityName'] is None else one['entityName']}"
            for one in entity
        )
    )
