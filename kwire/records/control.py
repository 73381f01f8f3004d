"""Control records: what Kafka writes between data for its own use, such as transaction markers and
KRaft's leader changes.

The key holds a version and the type; the body is always read and written at version 0, whatever
version it names.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from kwire import registry
from kwire.errors import DecodeError, EncodeError
from kwire.message import Message
from kwire.records.record import Record

_KEY: Final = struct.Struct(">hh")
_SHORT: Final = struct.Struct(">h")
_BODY_VERSION: Final = 0


class ControlType(NamedTuple):
    """A row of Kafka's ``ControlRecordType``: number, name, schema of the body, and how
    kafka-dump-log prints it.
    """

    number: int
    name: str
    schema: str
    dump_name: str


#: Every control record type of shipped Kafka (KIP-98, KIP-595, KIP-630, KIP-853), by number.
CONTROL_TYPES: Final = {
    row.number: row
    for row in (
        ControlType(0, "ABORT", "EndTxnMarker", "EndTxnMarker"),
        ControlType(1, "COMMIT", "EndTxnMarker", "EndTxnMarker"),
        ControlType(2, "LEADER_CHANGE", "LeaderChangeMessage", "LeaderChange"),
        ControlType(3, "SNAPSHOT_HEADER", "SnapshotHeaderRecord", "SnapshotHeader"),
        ControlType(4, "SNAPSHOT_FOOTER", "SnapshotFooterRecord", "SnapshotFooter"),
        ControlType(5, "KRAFT_VERSION", "KRaftVersionRecord", "KRaftVersion"),
        ControlType(6, "KRAFT_VOTERS", "VotersRecord", "KRaftVoters"),
    )
}
_NUMBERS: Final = {row.name: row.number for row in CONTROL_TYPES.values()}


class ControlRecord(NamedTuple):
    """A control record taken apart. ``message`` is None where the type is unknown (``UNKNOWN``):
    the record has the bytes.
    """

    version: int
    type: int
    name: str
    message: Message | None

    @property
    def dump_name(self) -> str:
        """The name that kafka-dump-log prints for the type, such as ``LeaderChange``."""
        known = CONTROL_TYPES.get(self.type)
        return known.dump_name if known else self.name


def decode_control_record(record: Record) -> ControlRecord:
    """Type and body of a record from a control batch (``ControlRecordType.parse``,
    ``ControlRecordUtils``).

    Bytes behind the four of the key and behind the body are ignored, as Kafka does: later versions
    may use them. Raises DecodeError: rule ``control-key`` (absent, short, or a negative version),
    ``null`` (no body), ``control-version`` (a transaction marker of a negative version), and those
    of the body's message.
    """
    version, number = _read_key(record.key)
    known = CONTROL_TYPES.get(number)
    if known is None:
        return ControlRecord(version, number, "UNKNOWN", None)
    body = record.value
    if body is None:
        raise DecodeError(f"control record {known.name} without a body", path="Value", rule="null")
    start = _skip_marker_version(body) if known.schema == "EndTxnMarker" else 0
    message, _ = registry.message_type(known.schema).decode_from(bytes(body), _BODY_VERSION, start)
    return ControlRecord(version, number, known.name, message)


def encode_control_record(
    name: str, message: Message, *, offset: int = 0, timestamp: int = -1
) -> Record:
    """The record of type ``name`` (``LEADER_CHANGE`` ...) with ``message`` as its body, key version
    0.

    It belongs into a batch with ``is_control``. ``timestamp`` in ms. Raises EncodeError: an unknown
    type, the wrong message, or one that version 0 cannot hold (voters' directory ids in a leader
    change).
    """
    number = _NUMBERS.get(name)
    if number is None:
        raise EncodeError(f"no control record type {name!r}; there are {', '.join(_NUMBERS)}")
    schema = CONTROL_TYPES[number].schema
    if schema != message.NAME:
        raise EncodeError(f"control record {name} takes a {schema}, not a {message.NAME}")
    body = message.encode(_BODY_VERSION)
    if schema == "EndTxnMarker":
        body = _SHORT.pack(_BODY_VERSION) + body
    return Record(offset=offset, timestamp=timestamp, key=_KEY.pack(0, number), value=body)


def _read_key(key: bytes | None) -> tuple[int, int]:
    if key is None or len(key) < _KEY.size:
        size = "no key" if key is None else f"a key of {len(key)} bytes"
        raise DecodeError(
            f"control record with {size}, four are needed", path="Key", rule="control-key"
        )
    found: tuple[Any, ...] = _KEY.unpack_from(key)
    version, number = found
    if version < 0:
        raise DecodeError(
            f"control record version {version} is negative", path="Key", rule="control-key"
        )
    return version, number


def _skip_marker_version(body: bytes) -> int:
    """Transaction markers alone have a version before the body; later ones are read as version 0
    (``EndTransactionMarker``).
    """
    if len(body) < _SHORT.size:
        raise DecodeError(
            "a transaction marker without its version", path="Value", rule="truncated"
        )
    (version,) = _SHORT.unpack_from(body)
    if version < 0:
        raise DecodeError(
            f"a transaction marker of version {version}", path="Value", rule="control-version"
        )
    return _SHORT.size
