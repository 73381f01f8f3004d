"""Makes random admin requests, with the mistakes that administrators make, for ``plain_model``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from kwire.message import Message
from tests.gateway.controller.cluster import made

TOPIC, LITERAL, PREFIXED, SET, DELETE, APPEND = 2, 3, 4, 0, 1, 2
#: Names of topics: all that can be, but for their mistakes.
NAMES: Final = ("a", "b", "c-d", "e.f", "g_h", "x" * 249)
_BAD_NAMES: Final = ("", "..", "no good", "y" * 250)
#: The last of them is no quota.
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "nothing")
_PRINCIPALS: Final = ("User:ann", "User:ben", "Group:x", "ann")


def plain_request(rng: random.Random) -> Message:
    """One of them, that often succeeds."""
    name = rng.choice(list(_FIELDS))
    request = made(name, **_FIELDS[name](rng))
    if hasattr(request, "timeout_ms"):
        request.timeout_ms = 30_000
    return request


def _topic(rng: random.Random) -> str:
    return rng.choice(_BAD_NAMES) if rng.random() < 0.1 else rng.choice(NAMES)


def _config(rng: random.Random) -> dict[str, str]:
    name, value = rng.choice((("retention.ms", "5"), ("retention.ms", "7"),
                              ("cleanup.policy", "compact"), ("retention.ms", "x"),
                              ("segment.bytes", "2000000"), ("unknown", "1")))  # fmt: skip
    return {"name": name, "value": value}


def _new_topic(rng: random.Random) -> dict[str, Any]:
    rare = rng.random() < 0.2
    return {
        "name": _topic(rng),
        "num_partitions": rng.choice((0, -2)) if rare else rng.choice((-1, 1, 3)),
        "replication_factor": rng.choice((0, 2, 1)) if rare else rng.choice((-1, 1)),
        "configs": [_config(rng)] if rng.random() < 0.4 else [],
    }


def _operation(rng: random.Random) -> dict[str, Any]:
    config = _config(rng)
    if rng.random() < 0.2:
        return (
            {**config, "config_operation": DELETE, "value": None}
            if config["name"] != "unknown"
            else config
        )
    appends = config["name"] in ("cleanup.policy", "segment.bytes") and rng.random() < 0.5
    return {**config, "config_operation": APPEND if appends else SET}


def _resources(
    rng: random.Random, config: Callable[[random.Random], dict[str, Any]]
) -> list[dict[str, Any]]:
    names = rng.sample(NAMES, rng.choice((1, 2)))
    return [
        {"resource_type": TOPIC, "resource_name": name, "configs": [config(rng)]} for name in names
    ]


def _new_acl(rng: random.Random) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": rng.choice(("a", "b", "*", "")),
        "resource_pattern_type": rng.choice((LITERAL, PREFIXED)),
        "principal": rng.choice(_PRINCIPALS),
        "host": rng.choice(("*", "10.0.0.1")),
        "operation": rng.choice((3, 4)),
        "permission_type": rng.choice((2, 3)),
    }


def _filter(rng: random.Random) -> dict[str, Any]:
    return {
        "resource_type_filter": TOPIC,
        "resource_name_filter": rng.choice(("a", "b", None)),
        "pattern_type_filter": rng.choice((1, LITERAL, PREFIXED)),
        "principal_filter": rng.choice((None, "User:ann")),
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


def _quota(rng: random.Random) -> dict[str, Any]:
    kinds = rng.choice((("user",), ("client-id",), ("client-id", "user")))
    ops = [
        {"key": key, "value": rng.choice((1.0, 2.0)), "remove": rng.random() < 0.4}
        for key in rng.sample(QUOTAS, rng.choice((1, 2)))
    ]
    return {
        "entity": [
            {"entity_type": kind, "entity_name": rng.choice(("ann", "ben", None))} for kind in kinds
        ],
        "ops": ops,
    }


def _entries(rng: random.Random) -> list[dict[str, Any]]:
    entries = [_quota(rng) for _ in range(rng.choice((1, 2)))]
    return entries if entries[0]["entity"] != entries[-1]["entity"] else entries[:1]


def _upsertion(rng: random.Random) -> dict[str, Any]:
    return {
        "name": rng.choice(("ann", "ben", "")), "mechanism": rng.choice((1, 2, 1, 2, 3)),
        "iterations": rng.choice((4096, 5000, 1)), "salt": b"salt", "salted_password": bytes(32),
    }  # fmt: skip


def _deletion(rng: random.Random) -> dict[str, Any]:
    return {"name": rng.choice(("ann", "ben")), "mechanism": rng.choice((1, 2))}


def _some(make: Callable[[random.Random], Any], rng: random.Random, most: int = 2) -> list[Any]:
    return [make(rng) for _ in range(rng.randint(1, most))]


_FIELDS: Final[dict[str, Callable[[random.Random], dict[str, Any]]]] = {
    "CreateTopicsRequest": lambda rng: {
        "topics": _some(_new_topic, rng, 3),
        "validate_only": rng.random() < 0.1,
    },
    "DeleteTopicsRequest": lambda rng: {
        "topics": [{"name": rng.choice(NAMES)} for _ in range(rng.choice((1, 2)))]
    },
    "CreatePartitionsRequest": lambda rng: {
        "topics": [
            {"name": rng.choice(NAMES), "count": rng.choice((-1, 0, 2, 4, 6)), "assignments": None}
        ],
        "validate_only": rng.random() < 0.1,
    },
    "IncrementalAlterConfigsRequest": lambda rng: {
        "resources": _resources(rng, _operation),
        "validate_only": rng.random() < 0.1,
    },
    "AlterConfigsRequest": lambda rng: {
        "resources": _resources(rng, _config),
        "validate_only": rng.random() < 0.1,
    },
    "CreateAclsRequest": lambda rng: {"creations": _some(_new_acl, rng)},
    "DeleteAclsRequest": lambda rng: {"filters": _some(_filter, rng)},
    "AlterClientQuotasRequest": lambda rng: {
        "entries": _entries(rng),
        "validate_only": rng.random() < 0.1,
    },
    "AlterUserScramCredentialsRequest": lambda rng: {
        "deletions": _some(_deletion, rng) if rng.random() < 0.5 else [],
        "upsertions": _some(_upsertion, rng),
    },
}
