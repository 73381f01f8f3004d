"""Reads and writes the frame of every record of ``__cluster_metadata``: message type and version
(``MetadataRecordSerde``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kwire import registry
from kwire.errors import DecodeError, EncodeError, UnknownApi
from kwire.message import Message
from kwire.varint import read_unsigned_varint, write_unsigned_varint

#: The one frame version there is.
FRAME_VERSION: Final = 1
_SHORT_MAX: Final = 32767

_Reader = Callable[..., tuple[Message, int]]
#: Frames of three bytes whose type and version are known: nearly every record's. As many as types
#: have versions.
_seen: Final[dict[bytes, tuple[str, int, _Reader]]] = {}


def decode_metadata_record(value: bytes, *, budget: int | None = None) -> tuple[str, int, Message]:
    """The metadata record in a record's ``value``: (type as kafka-dump-log names it, version,
    message).

    ``budget`` bounds the array elements and unknown tagged fields of the message. Raises
    DecodeError: rule ``null`` (no value), ``frame-version``, ``record-type``, ``record-version``,
    ``trailing-bytes``, and those of varints and messages.
    """
    if value.__class__ is not bytes:
        value = _as_bytes(value)
    known = _seen.get(value[:3])
    if known is not None:
        (name, version, read), at = known, 3
    else:
        name, version, read, at = _reader(value)
    message, end = read(value, version, at, budget=budget)
    if end != len(value):
        raise DecodeError(
            f"{len(value) - end} bytes left over behind {name}", offset=end, rule="trailing-bytes"
        )
    return name, version, message


def encode_metadata_record(message: Message, version: int) -> bytes:
    """The value of the record that holds ``message`` at ``version``.

    Raises EncodeError (not a metadata record, or a field that cannot be written) and
    UnsupportedVersion.
    """
    if message.TYPE != "metadata" or message.API_KEY is None:
        raise EncodeError(f"{message.NAME} is no metadata record")
    body = message.encode(version)
    return b"\x01" + write_unsigned_varint(message.API_KEY) + write_unsigned_varint(version) + body


def metadata_record_name(cls: type[Message]) -> str:
    """Kafka's name of a metadata record type (``MetadataRecordType``): PartitionChangeRecord is
    PARTITION_CHANGE_RECORD.
    """
    return re.sub(r"(?<=.)(?=[A-Z])", "_", cls.NAME).upper()


def _reader(value: bytes) -> tuple[str, int, _Reader, int]:
    """The type and version that a frame names: (name, version, reader, position of the message)."""
    key, version, at = _read_frame(value)
    try:
        cls = registry.record_type(key)
    except UnknownApi as error:
        raise DecodeError(str(error), offset=0, rule="record-type") from None
    name = metadata_record_name(cls)
    if version not in cls.VERSIONS:
        last = cls.VERSIONS[-1]
        raise DecodeError(
            f"{name} of version {version}, {last} is the newest known",
            offset=0,
            rule="record-version",
        )
    if at == 3:
        _seen[value[:3]] = name, version, cls.decode_from
    return name, version, cls.decode_from, at


def _read_frame(value: bytes) -> tuple[int, int, int]:
    """The three numbers of a frame: (api key, version, position of the message)."""
    frame_version, at = read_unsigned_varint(value, 0)
    if frame_version != FRAME_VERSION:
        hint = ": written by a preview of KRaft in Kafka 2.8" if frame_version == 0 else ""
        raise DecodeError(
            f"metadata record frame of version {frame_version}, 1 is known{hint}",
            offset=0,
            rule="frame-version",
        )
    key, version_at = read_unsigned_varint(value, at)
    if key > _SHORT_MAX:
        raise DecodeError(
            f"metadata record type {key}, {_SHORT_MAX} is the most", offset=at, rule="record-type"
        )
    version, end = read_unsigned_varint(value, version_at)
    if version > _SHORT_MAX:
        raise DecodeError(
            f"metadata record version {version}, {_SHORT_MAX} is the most",
            offset=version_at,
            rule="record-version",
        )
    return key, version, end


def _as_bytes(value: Any) -> bytes:
    if value is None:
        raise DecodeError("a metadata record without a value", rule="null")
    return bytes(value)
