"""Names the entity that a metadata record describes: its kind, and a key that is unique in that
kind. A record and the one that removes the entity have the same key. It does not know Spark or
Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kwire.cluster.image import CONFIG_TYPES

#: Stands where a quota or a config is the default for all of its kind.
DEFAULT: Final = "<default>"
_QUOTA: Final = "CLIENT_QUOTA_RECORD"


class About(NamedTuple):
    """The kind of entity, and the JSON names of the fields that make its key, with colons between;
    none if there is only one such entity.
    """

    entity: str
    fields: tuple[str, ...] = ()


#: By record type. ``CLIENT_QUOTA_RECORD`` makes its key otherwise.
ABOUT: Final[Mapping[str, About]] = {
    "REGISTER_BROKER_RECORD": About("broker", ("brokerId",)),
    "UNREGISTER_BROKER_RECORD": About("broker", ("brokerId",)),
    "BROKER_REGISTRATION_CHANGE_RECORD": About("broker", ("brokerId",)),
    "FENCE_BROKER_RECORD": About("broker", ("id",)),
    "UNFENCE_BROKER_RECORD": About("broker", ("id",)),
    "REGISTER_CONTROLLER_RECORD": About("controller", ("controllerId",)),
    "UNREGISTER_CONTROLLER_RECORD": About("controller", ("controllerId",)),
    "TOPIC_RECORD": About("topic", ("topicId",)),
    "REMOVE_TOPIC_RECORD": About("topic", ("topicId",)),
    "PARTITION_RECORD": About("partition", ("topicId", "partitionId")),
    "PARTITION_CHANGE_RECORD": About("partition", ("topicId", "partitionId")),
    "CLEAR_ELR_RECORD": About("elr", ("topicName",)),
    "CONFIG_RECORD": About("config", ("resourceType", "resourceName")),
    "ACCESS_CONTROL_ENTRY_RECORD": About("acl", ("id",)),
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": About("acl", ("id",)),
    "USER_SCRAM_CREDENTIAL_RECORD": About("user", ("name",)),
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": About("user", ("name",)),
    _QUOTA: About("quota", ("entity",)),
    "DELEGATION_TOKEN_RECORD": About("token", ("tokenId",)),
    "REMOVE_DELEGATION_TOKEN_RECORD": About("token", ("tokenId",)),
    "FEATURE_LEVEL_RECORD": About("feature", ("name",)),
    "PRODUCER_IDS_RECORD": About("producer_ids"),
    "ZK_MIGRATION_STATE_RECORD": About("zk_migration"),
    "BEGIN_TRANSACTION_RECORD": About("transaction"),
    "END_TRANSACTION_RECORD": About("transaction"),
    "ABORT_TRANSACTION_RECORD": About("transaction"),
    "NO_OP_RECORD": About("no_op"),
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
