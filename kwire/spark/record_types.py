"""Finds record types by name: ``TopicRecord`` or ``TOPIC_RECORD``, as a message and as the first
bytes of every such record.
"""

from __future__ import annotations

from kwire.errors import UnknownApi
from kwire.messages import BY_KEY
from kwire.varint import write_unsigned_varint


def type_key(name: str) -> int:
    """The number of a record type. Raises UnknownApi."""
    plain = name.replace("_", "").lower()
    for (kind, key), message in BY_KEY.items():
        if kind == "metadata" and message.lower() == plain:
            return key
    raise UnknownApi(f"no metadata record is named {name!r}")


def type_prefix(name: str) -> bytes:
    """Frame version 1 and the type's number, both as unsigned varints: the first bytes of every
    record of that type. Raises UnknownApi.
    """
    return b"\x01" + write_unsigned_varint(type_key(name))
