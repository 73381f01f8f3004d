"""Kafka's wire protocol, generated from its message schemas: every message, byte for byte as Java
writes it.

import kwire
cls = kwire.message_type("FetchRequest")
cls.decode(cls(max_wait_ms=500).encode(12), 12)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.errors import DecodeError, EncodeError, UnknownApi, UnsupportedVersion, WireError
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kwire.message import Message, Struct
    from kwire.registry import message_names, message_type, record_type, request_type, response_type

__all__ = [
    "METADATA_TOPIC_ID",
    "ZERO_UUID",
    "DecodeError",
    "EncodeError",
    "Message",
    "Struct",
    "UnknownApi",
    "UnsupportedVersion",
    "Uuid",
    "WireError",
    "message_names",
    "message_type",
    "record_type",
    "request_type",
    "response_type",
]


def __getattr__(name: str) -> Any:
    # The registry is loaded on first use: importing kwire alone stays cheap.
    if name in ("message_names", "message_type", "record_type", "request_type", "response_type"):
        from kwire import registry

        return getattr(registry, name)
    if name in ("Message", "Struct"):
        from kwire import message

        return getattr(message, name)
    raise AttributeError(f"module 'kwire' has no attribute {name!r}")
