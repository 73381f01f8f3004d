"""Decodes metadata records one by one. Every other way of decoding must give the same result. It
knows no Spark or Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kwire.errors import DecodeError
from kwire.message import Message
from kwire.records import decode_metadata_record
from kwire.records.redact import redact
from kwire.spark.entities import key_of


class Decoded(NamedTuple):
    """One record: its type as Kafka names it, the JSON form as text, and the key (None for a kind
    with only one entity).
    """

    type: str
    version: int
    data: str
    key: str | None


def exact_row(value: bytes | None, *, secrets: bool) -> Decoded:
    """Return the record in ``value``; without ``secrets`` its secrets are hidden. Raises WireError
    for one that cannot be read.
    """
    name, version, message = read(value)
    members = message.to_json(version)
    return Decoded(name, version, json_text(shown(name, members, secrets)), key_of(name, members))


def read(value: bytes | None, wanted: type[Message] | None = None) -> tuple[str, int, Message]:
    """(type, version, message). Raises DecodeError, also for a null and for a record of another
    type than those ``wanted``.
    """
    if value is None:
        raise DecodeError("the value is null, so it is no metadata record")
    name, version, message = decode_metadata_record(value)
    if wanted is not None and type(message) is not wanted:
        raise DecodeError(f"a {name}, not a {wanted.NAME}")
    return name, version, message


def shown(name: str, members: dict[str, Any], secrets: bool) -> Mapping[str, Any]:
    """Return ``members`` of a record of type ``name`` with secrets hidden."""
    return members if secrets else redact(name, members)


#: The JSON of kwire's tables: no spaces, text as it is.
json_text: Callable[[Any], str] = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode
