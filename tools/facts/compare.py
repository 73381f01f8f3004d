"""Compares the facts of two Kafka releases, and names the code that each difference concerns.

It compares data; the interoperability tests find behaviour that changed without a fact (a method's
body).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: Start of a fact's path -> what to look at when it differs.
_LOOK_AT: Final = (
    (
        "/errors/",
        "kwire/protocol is generated; is a code retriable, and does the controller answer with a "
        "new one?",
    ),
    (
        "/apis/",
        "gateway/handlers/table.py: a key that controllers serve needs a handler; versions come "
        "with the schemas",
    ),
    ("/acl/", "gateway/controller/apis/create_acls.py, gateway/security/standard_authorizer.py"),
    ("/scramMechanisms/", "gateway/security/scram.py"),
    ("/configResourceTypes/", "gateway/controller/configs/resource_configs.py"),
    ("/configKeys/topic", "gateway/controller/configs/topic_keys.py"),
    ("/configKeys/broker", "gateway/controller/configs/broker_keys.py"),
    ("/configKeys/group", "gateway/controller/configs/group_keys.py"),
    ("/configKeys/clientMetrics", "gateway/controller/configs/client_metrics_keys.py"),
    (
        "/metadataVersions/",
        "read what MetadataVersion's new methods guard in the controller, the image and the "
        "authorizer",
    ),
    (
        "/features/",
        "gateway/controller/apis/update_features.py; "
        "tests/gateway/controller/test_update_features.py",
    ),
    ("/group", "gateway/groups"),
    ("/topics/", "gateway/handlers/topic.py"),
)
#: Members of one row at most; a larger table of plain values is compared value by value.
_ROW_MAX: Final = 10


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return a line for each fact that was added, removed or changed, sorted by its path."""
    old, new = dict(_flat(before, "")), dict(_flat(after, ""))
    lines = []
    for path in sorted(old.keys() | new.keys()):
        if path not in old:
            lines.append(f"+ {path}: {new[path]}")
        elif path not in new:
            lines.append(f"- {path}: {old[path]}")
        elif old[path] != new[path]:
            lines.append(f"~ {path}: {old[path]} -> {new[path]}")
    return lines


def to_look_at(lines: list[str]) -> list[str]:
    """Return the places in the code that the :func:`differences` concern, in their order."""
    return [
        advice for start, advice in _LOOK_AT if any(line[2:].startswith(start) for line in lines)
    ]


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """(path, value) of each leaf. A row with a name is under that name, so that an inserted row
    does not change the paths of others.
    """
    if isinstance(value, Mapping):
        leaves = {key: one for key, one in value.items() if not isinstance(one, (Mapping, list))}
        if len(leaves) > _ROW_MAX:
            for key, one in leaves.items():
                yield f"{path}/{key}", str(one)
        elif leaves:
            yield path, " ".join(f"{key}={one}" for key, one in leaves.items() if key != "name")
        for key, one in value.items():
            if key not in leaves:
                yield from _flat(one, f"{path}/{key}")
    elif value and isinstance(value[0], Mapping):
        for row in value:
            yield from _flat(row, f"{path}/{row.get('name', row.get('level'))}")
    else:
        yield path, ", ".join(map(str, value))
