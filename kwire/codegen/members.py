"""Reads single members of a schema's JSON objects: texts, flags, version ranges, versions of
headers, default values.

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

#: The first version of each header that has tagged fields (KIP-482).
FLEXIBLE_HEADERS: Mapping[str, int] = {"request": 2, "response": 1}
#: The API key whose response always has header version 0.
API_VERSIONS = 18

MESSAGE_MEMBERS = frozenset(
    [
        "name",
        "type",
        "apiKey",
        "validVersions",
        "deprecatedVersions",
        "flexibleVersions",
        "headerVersions",
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

    def headers(
        self, raw: Mapping[str, Any], kind: str, valid: Versions, flexible: Versions, path: str
    ) -> tuple[tuple[int, int], ...]:
        """Return ``headerVersions`` as (first version, version of the header), without gaps from
        version 0 on; nothing where the schema does not have them.
        """
        value = raw.get("headerVersions")
        if value is None:
            return ()
        if kind not in ("request", "response") or not isinstance(value, Mapping) or not value:
            raise self.fail(path, "headerVersions is an object of a request or response")
        found = sorted((self.versions({"": key}, "", path), one) for key, one in value.items())
        start = 0
        for versions, header in found:
            if not versions or versions.low != start:
                raise self.fail(path, f"headerVersions must run from 0 on without gaps: {start}")
            start = versions.high + 1
            # Of a version that was removed any header may be declared.
            self._check_header(header, kind, versions & valid, flexible, raw.get("apiKey"), path)
        if start <= valid.high:
            raise self.fail(path, f"headerVersions lack version {start}")
        return tuple((versions.low, int(header)) for versions, header in found)

    def _check_header(
        self, header: Any, kind: str, versions: Versions, flexible: Versions, key: Any, path: str
    ) -> None:
        """Refuse a header that is flexible where the message is not, or the other way round
        (KIP-482).
        """
        if not re.fullmatch("[0-9]{1,4}", str(header)):
            raise self.fail(path, f"headerVersions: {header!r} is no version")
        if kind == "response" and whole(key) == API_VERSIONS:
            # A client reads this header before it knows what the server can (KIP-511).
            is_right = int(header) == 0
        else:
            is_flexible = int(header) >= FLEXIBLE_HEADERS[kind]
            is_right = flexible.covers(versions) if is_flexible else not flexible & versions
        if not is_right:
            raise self.fail(
                path,
                f"headerVersions {versions}: header version {header} does not fit"
                f" flexibleVersions {flexible}",
            )

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
