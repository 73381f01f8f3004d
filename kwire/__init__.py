"""Kafka's wire protocol, generated from its message schemas: every message, byte for byte as Java
writes it; and the metadata log of a cluster, as records and as an image.

import kwire
cls = kwire.message_type("FetchRequest")
cls.decode(cls(max_wait_ms=500).encode(12), 12)

for record in kwire.read("/var/lib/kafka/metadata"):
    print(record.offset, record.type, record.message)
kwire.image("/var/lib/kafka/metadata", at="2026-11-21T03:18:00").topic_ids
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kwire.errors import DecodeError, EncodeError, UnknownApi, UnsupportedVersion, WireError
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kwire.cluster.image import Image
    from kwire.message import Message, Struct
    from kwire.metadata_log.errors import MetadataLogError, MetadataLogWarning
    from kwire.metadata_log.read import MetadataRecord, follow, image, read
    from kwire.registry import message_names, message_type, record_type, request_type, response_type

__all__ = [
    "METADATA_TOPIC_ID",
    "ZERO_UUID",
    "DecodeError",
    "EncodeError",
    "Image",
    "Message",
    "MetadataLogError",
    "MetadataLogWarning",
    "MetadataRecord",
    "Struct",
    "UnknownApi",
    "UnsupportedVersion",
    "Uuid",
    "WireError",
    "follow",
    "image",
    "message_names",
    "message_type",
    "read",
    "record_type",
    "request_type",
    "response_type",
]

#: Names that are imported on first use, with their modules: importing kwire alone stays cheap.
_ON_FIRST_USE = {
    "Image": "kwire.cluster.image",
    "Message": "kwire.message",
    "MetadataLogError": "kwire.metadata_log.errors",
    "MetadataLogWarning": "kwire.metadata_log.errors",
    "MetadataRecord": "kwire.metadata_log.read",
    "Struct": "kwire.message",
    "follow": "kwire.metadata_log.read",
    "image": "kwire.metadata_log.read",
    "message_names": "kwire.registry",
    "message_type": "kwire.registry",
    "read": "kwire.metadata_log.read",
    "record_type": "kwire.registry",
    "request_type": "kwire.registry",
    "response_type": "kwire.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'kwire' has no attribute {name!r}")
    return getattr(import_module(_ON_FIRST_USE[name]), name)
