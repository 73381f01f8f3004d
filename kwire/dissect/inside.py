"""Dissects records and Envelope requests inside messages, and hides secrets in them.

It works on trees that are already read: it adds nodes below the field that holds the bytes, or
marks nodes as hidden.
"""

from __future__ import annotations

from typing import Final

from kwire.errors import DecodeError
from kwire.protocol import ConfigResourceType
from kwire.records import (
    BATCH_OVERHEAD,
    BatchHeader,
    Compression,
    Record,
    RecordBatch,
    decode_batch,
    decode_control_record,
)
from kwire.records.decode import RECORD_BYTES_MIN
from kwire.records.header import batch_size
from kwire.records.redact import is_secret_config
from kwire.records.secret_table import SECRET_FIELDS
from kwire.reference.frames import dissect_metadata_record, dissect_request
from kwire.reference.parse_trace import Budget, Node
from kwire.reference.primitives import Refused
from kwire.varint import read_varint, read_varlong

#: Types of nodes whose bytes may hold any record of the metadata log, and its secrets.
_RECORDS: Final = "records"
_UNDECODED: Final = "undecoded"
_INCOMPLETE: Final = "incomplete batch"
#: Nodes that hold a whole request or response (``EnvelopeRequest``, ``EnvelopeResponse``), or bytes
#: that are no field. An invalid frame may be a SASL token: after SaslHandshake 0 tokens come
#: without a header.
_UNOPENED: Final = frozenset(("RequestData", "ResponseData", _INCOMPLETE, "undecoded", "left over"))
#: Positions in a batch of format 2, and of formats 0 and 1.
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
_OLD_ATTRIBUTES_AT: Final = 17
_COMPRESSION_BITS: Final = 7
#: Nodes of a tree of a metadata record, beside its fields.
_METADATA_NODES: Final = 5
#: Nodes of a record without headers: its own, timestamp, key and value.
_RECORD_NODES: Final = 4
#: Attributes of a batch header that are shown.
_HEADER_FIELDS: Final = (
    "base_offset",
    "partition_leader_epoch",
    "magic",
    "crc",
    "compression",
    "timestamp_type",
    "is_transactional",
    "is_control",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


def open_records(tree: Node, budget: Budget) -> None:
    """Decode the record batches and Envelope requests in ``tree``.

    ``budget`` is what the tree left of its own. Where it is spent, a node has an ``error``, and
    nothing more is opened.
    """
    for _, node in list(tree.walk()):
        if node.type == _RECORDS and node.value:
            _open_batches(node, node.value, node.end - len(node.value), budget)
        elif node.name == "RequestData" and node.type == "bytes" and node.value:
            inner = dissect_request(node.value, budget)
            inner.move(node.end - len(node.value))
            node.children.append(inner)


def _open_batches(node: Node, data: bytes, start: int, budget: Budget) -> None:
    """Add the batches of ``data``, which begins at byte ``start``; an error is the last node."""
    end = 0
    try:
        while size := batch_size(data, end, len(data)):
            node.children.append(_batch(_decoded(data, end, budget), data, start, budget))
            end += size
    except (DecodeError, Refused) as error:
        path, offset = ("", -1) if isinstance(error, Refused) else (error.path, error.offset)
        broken = DecodeError(
            error.reason, path=path, offset=start + max(offset, end), rule=error.rule
        )
        node.children.append(
            Node("batch", _UNDECODED, start + end, start + len(data), error=broken)
        )
        return
    if end < len(data):
        # A Fetch response may end in an incomplete batch.
        node.children.append(Node(_INCOMPLETE, "bytes", start + end, start + len(data), data[end:]))


def _decoded(data: bytes, position: int, budget: Budget) -> RecordBatch:
    """Return the batch at ``position``. Raises DecodeError, and Refused when it is too large."""
    budget.take(1 + len(_HEADER_FIELDS))
    try:
        batch = decode_batch(data, position, limit=budget.size, budget=budget.nodes)
    except DecodeError as error:
        if _was_decompressed(data, position, error):
            budget.halve()
        raise
    if batch.header.compression is not Compression.NONE:
        budget.take(0, sum(map(_size, batch.records)))
    return batch


def _was_decompressed(data: bytes, position: int, error: DecodeError) -> bool:
    """Whether the batch that ``error`` is about may have been decompressed before it was found."""
    magic = data[position + _MAGIC_AT]
    attributes = data[position + (_ATTRIBUTES_AT if magic == 2 else _OLD_ATTRIBUTES_AT)]
    return attributes & _COMPRESSION_BITS != 0 and (magic < 2 or error.rule != "crc")


def _size(record: Record) -> int:
    """Return the bytes of a record that was decompressed, about."""
    values = (record.key, record.value, *(value for _, value in record.headers))
    return RECORD_BYTES_MIN + sum(len(value) for value in values if value is not None)


def _batch(batch: RecordBatch, data: bytes, start: int, budget: Budget) -> Node:
    header = batch.header
    node = Node("batch", f"format {header.magic}", start + header.position, start + header.end)
    for name in _HEADER_FIELDS:
        value = getattr(header, name)
        node.children.append(Node(name, "", -1, -1, getattr(value, "name", value)))
    places = _value_places(data, header)
    for number, record in enumerate(batch.records):
        place = places[number] + start if number < len(places) else None
        node.children.append(_record(record, header, place, budget))
    return node


def _value_places(data: bytes, header: BatchHeader) -> list[int]:
    """Return the position of each record's value in uncompressed batches, whose records were
    decoded before.
    """
    if header.magic != 2 or header.compression is not Compression.NONE:
        return []
    places = []
    at = header.position + BATCH_OVERHEAD
    for _ in range(header.record_count):
        size, at = read_varint(data, at)
        end = at + size
        _, at = read_varlong(data, at + 1)
        _, at = read_varint(data, at)
        key_size, at = read_varint(data, at)
        _, at = read_varint(data, at + max(key_size, 0))
        places.append(at)
        at = end
    return places


def _record(record: Record, header: BatchHeader, place: int | None, budget: Budget) -> Node:
    budget.take(_RECORD_NODES + len(record.headers))
    node = Node(f"record {record.offset}", "record", -1, -1)
    node.children = [
        Node("timestamp", "ms", -1, -1, record.timestamp),
        Node("key", "bytes", -1, -1, record.key),
    ]
    if header.is_control:
        node.children.append(_control(record))
    else:
        node.children.append(_value(record.value, place, budget))
    node.children += [
        Node(f"header {key}", "bytes", -1, -1, value) for key, value in record.headers
    ]
    return node


def _control(record: Record) -> Node:
    try:
        control = decode_control_record(record)
    except DecodeError as error:
        return Node("control record", "", -1, -1, error=error)
    node = Node(
        "control record",
        control.name,
        -1,
        -1,
        None if control.message is not None else record.value,
    )
    if control.message is not None:
        members = control.message.to_json(0)
        node.children = [Node(name, "", -1, -1, value) for name, value in members.items()]
    return node


def _value(value: bytes | None, place: int | None, budget: Budget) -> Node:
    """Return a record's value: as a metadata record if all of it is one, else as bytes."""
    plain = Node("value", "bytes", -1, -1, value)
    if place is not None and value is not None:
        plain.start, plain.end = place, place + len(value)
    if not value or value[0] != 1:
        return plain
    budget.take(_METADATA_NODES)
    tree = dissect_metadata_record(value, budget)
    if tree.failure() is not None:
        budget.take(0)  # the failure is another one where the budget is spent
        plain.type = _UNDECODED
        return plain
    if place is None:
        tree.detached = True
    else:
        tree.move(place)
    return tree


def hide_secrets(tree: Node) -> None:
    """Mark the secrets in ``tree``, and the bytes that hold them, as hidden.

    Bytes that were not opened may hold any secret: records and requests inside others are hidden.
    """
    _hide(tree, ConfigResourceType.TOPIC)  # CreateTopics has configs, and names no resource type


def _hide(node: Node, resource_type: int) -> None:
    node.hidden = node.hidden or _is_secret(node)
    members = {child.name: child for child in node.children}
    kind = members.get("ResourceType")
    if kind is not None:
        resource_type = kind.value if isinstance(kind.value, int) else -1
    name, value = members.get("Name") or members.get("ConfigName"), members.get("Value")
    if (
        name is not None
        and value is not None
        and (value.value is not None or value.error is not None)
    ):
        value.hidden = not isinstance(name.value, str) or is_secret_config(
            resource_type, name.value
        )
    for child in node.children:
        _hide(child, resource_type)


def _is_secret(node: Node) -> bool:
    return (
        node.name in SECRET_FIELDS or node.name in _UNOPENED or node.type in (_RECORDS, _UNDECODED)
    )
