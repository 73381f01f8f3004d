"""Reads single members of a schema's JSON objects: texts, flags, version ranges, default values.

It knows no struct and no message. A member of the wrong form raises SchemaError with file, field
and reason. Follows ``MessageSpec`` and ``FieldSpec`` of Kafka's generator.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from kwire.codegen.model import SchemaError, Struct, Versions

#: Integer type -> (smallest, largest value).
_INTEGERS: Mapping[str, tuple[int, int]] = {
    "int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1),
}  # fmt: skip

MESSAGE_MEMBERS = frozenset(
    [
        "name",
        "type",
        "apiKey",
        "validVersions",
        "deprecatedVersions",
        "flexibleVersions",
        "fields",
        "commonStructs",
        "listeners",
        "latestVersionUnstable",
        "about",
    ]
)
FIELD_MEMBERS = frozenset(
    [
        "name",
        "type",
        "versions",
        "about",
        "default",
        "fields",
        "nullableVersions",
        "entityType",
        "ignorable",
        "mapKey",
        "tag",
        "taggedVersions",
        "zeroCopy",
        "flexibleVersions",
    ]
)
COMMON_MEMBERS = frozenset(["name", "versions", "fields", "about"])


class Members:
    """Reads the members of objects in the schema file ``source``."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, path: str, rule: str) -> SchemaError:
        """Return the error for a broken ``rule`` at ``path``."""
        return SchemaError(self.source, path, rule)

    def check_known(self, raw: Mapping[str, Any], known: frozenset[str], path: str) -> None:
        """Raise SchemaError for a member that is not in ``known``."""
        for member in raw:
            if member not in known:
                raise self.fail(path, f"unknown member {member!r}")

    def text(self, raw: Mapping[str, Any], member: str, path: str) -> str:
        value = raw.get(member)
        if not isinstance(value, str) or not value:
            raise self.fail(path, f"{member} is missing or not text")
        return value

    def flag(self, raw: Mapping[str, Any], member: str, path: str) -> bool:
        value = raw.get(member, False)
        if value in (True, "true"):
            return True
        if value in (False, "false"):
            return False
        raise self.fail(path, f"{member} is true or false, not {value!r}")

    def versions(
        self, raw: Mapping[str, Any], member: str, path: str, missing: Versions | None = None
    ) -> Versions:
        value = raw.get(member)
        if value is None:
            if missing is None:
                raise self.fail(path, f"{member} is missing")
            return missing
        try:
            return Versions.parse(str(value))
        except ValueError as error:
            raise self.fail(path, f"{member}: {error}") from None


def whole(value: Any) -> Any:
    """Return ``value``, or the number in it if it is a string, as Kafka's reader does (tag "0" in
    Kafka 3).
    """
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value) else value


def default_value(element: str, array: bool, struct: Struct | None, text: str) -> Any:
    """Return the default of a field of type ``element`` for ``text``. Raises ValueError."""
    if array or struct is not None or element in ("bytes", "records", "Header", "ApiMessage"):
        if text:
            raise ValueError('only "null" or nothing')
        return ""
    if element == "string":
        return text
    if element == "bool":
        if text not in ("", "true", "false"):
            raise ValueError("true or false")
        return text == "true"
    if element == "float64":
        return float(text or 0)
    if element == "uuid":
        raw = base64.urlsafe_b64decode(text + "==") if text else bytes(16)
        if len(raw) != 16:
            raise ValueError("a uuid has 22 characters")
        return raw
    value = int(text, 0) if text else 0
    low, high = _INTEGERS[element]
    if not low <= value <= high:
        raise ValueError(f"outside {low} .. {high}")
    return value
