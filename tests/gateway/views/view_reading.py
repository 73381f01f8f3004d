"""Reads the views of a log directory without a server, and makes the tables that they must give."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.ports.view_topics import CHANGES
from gateway.sources import LogDirectory, open_log
from gateway.sources.log_reader import content
from gateway.views.cursor import Piece, ViewCursor
from gateway.views.encode import ViewEncoder
from kwire.cluster import Image, shell_view
from kwire.cluster.entities import KINDS
from kwire.cluster.entities.partitions import partition_fields
from kwire.cluster.kind import Fields, Place
from kwire.cluster.view_records import COMPLETE_HEADER
from kwire.messages.partition_record import PartitionRecord
from kwire.records import Record
from kwire.records.batch import decode_batches

CLUSTER_ID = "2df6cE7sSnWyxRvcxZGPwA"
#: Entities of a view: the key's JSON, and the value's.
Table = dict[str, str]


def opened(directory: Path) -> LogDirectory:
    """The log of a directory, read to its end."""
    log = open_log(directory)
    log.refresh()
    while log.refresh_delay_s == 0:
        log.refresh()
    return log


def served(log: LogDirectory, offset: int, max_bytes: int = 1 << 16) -> bytes:
    """The bytes that a read at ``offset`` gives."""
    read = log.read(offset, max_bytes)
    data = content(read.chunks)
    read.release()
    return data


def records_from(data: bytes, position: int) -> tuple[list[Record], int]:
    """The records of a Fetch from ``position`` on, as a consumer sees them, and its next one."""
    batches = list(decode_batches(data))
    records = [
        record
        for batch in batches
        if not batch.header.is_control
        for record in batch.records
        if record.offset >= position
    ]
    return records, max((batch.header.next_offset for batch in batches), default=position)


def pieces(log: LogDirectory) -> Iterator[Piece]:
    """The changes of all views, from the start of the log to its end."""
    cursor = ViewCursor(log.log_start_offset, log.snapshot_end)
    while True:
        if cursor.is_hungry:
            if cursor.next_offset == log.high_watermark:
                return
            cursor.feed(served(log, cursor.next_offset))
        yield cursor.step()


def view_records(log: LogDirectory, view: str, encoder: ViewEncoder | None = None) -> list[Record]:
    """All records of a view, decoded from its batches."""
    encoder = encoder or ViewEncoder(CLUSTER_ID)
    return [
        record
        for piece in pieces(log)
        for batch in encoder.batches(view, piece.changes, piece.complete)
        for decoded in decode_batches(batch.data)
        for record in decoded.records
    ]


def is_marker(record: Record) -> bool:
    """Whether it says that a snapshot is complete."""
    return any(name == COMPLETE_HEADER for name, _ in record.headers)


def take(table: Table, record: Record) -> None:
    """Keep the last value of each key."""
    assert record.key is not None
    key = record.key.decode()
    if record.value is None:
        table.pop(key, None)
    else:
        table[key] = record.value.decode()


def created(records: list[Record]) -> list[Record]:
    """The records of topics that have partitions: a new topic has an earlier one without."""
    return [one for one in records if json.loads(one.value or b"")["partitions"] > 0]


def take_change(tables: dict[str, Table], record: Record) -> None:
    """Apply a record of ``changes`` to the tables by kind of entity, if ``before`` is in them."""
    assert record.value is not None
    change = json.loads(record.value)
    table = tables.setdefault(change["kind"], {})
    key = json.dumps(change["key"], separators=(",", ":"))
    before = None if key not in table else json.loads(table[key])
    if change["op"] != "r":
        assert change["before"] == before, change
    assert (change["op"] == "d") == (change["after"] is None), change
    assert (change["op"] in "cr") == (change["before"] is None), change
    if change["after"] is None:
        del table[key]
    else:
        table[key] = json.dumps(change["after"], separators=(",", ":"))


def take_last_change(tables: dict[str, Table], record: Record) -> None:
    """Put the entity into the tables as the last record of ``changes`` with its key left it."""
    assert record.value is not None
    change = json.loads(record.value)
    if change["after"] is not None:
        tables.setdefault(change["kind"], {})[_text(change["key"])] = _text(change["after"])


#: The place of the entities of some views in the tree of ``kwire state``.
_BY_PLACE = {
    "acls": ("acls", "byId"),
    "brokers": ("cluster", "brokers"),
    "controllers": ("cluster", "controllers"),
    "tokens": ("delegationToken",),
}


#: The key and the value of partitions, by the id of a record; with the record, so that no other
#: one gets its id.
KnownPartitions = dict[int, tuple[PartitionRecord, str, str]]


def state(image: Image, known: KnownPartitions | None = None) -> dict[str, Table]:
    """The tables of ``image`` by view: the entities of the tree of ``kwire state``.

    ``known`` keeps the partitions between calls on one image: a record in an image is never
    changed, but replaced.
    """
    tables: dict[str, Table] = {kind.view: {} for kind in KINDS if kind.view is not None}
    tables["topics"] = _topics(image)
    if known is not None:
        tables["partitions"] = _partitions(image, known)
        image = replace(image, partitions=defaultdict(dict))
    for place, secret in shell_view.entities(image):
        fields = shell_view.without_secrets(place, secret)
        for view, key, value in _rows(image, place, fields):
            tables[view][_text(key)] = _text(value)
    return tables


def _topics(image: Image) -> Table:
    table = {}
    for topic_id, name in image.topics.items():
        partitions = image.partitions[topic_id]
        first = partitions.get(0, PartitionRecord())
        configs = dict(sorted(image.configs.get((2, name), {}).items()))
        value = {
            "name": name,
            "id": str(topic_id),
            "partitions": len(partitions),
            "replicationFactor": len(set(first.replicas) - set(first.adding_replicas)),
            "configs": shell_view.without_secrets(("configs", f"TOPIC:{name}"), configs),
        }
        table[_text({"name": name})] = _text(value)
    return table


def _partitions(image: Image, known: KnownPartitions) -> Table:
    table = {}
    for topic_id, partitions in image.partitions.items():
        for index, record in partitions.items():
            if id(record) not in known:
                place = ("topics", "byName", image.topics[topic_id], str(index))
                ((_, key, value),) = _rows(image, place, partition_fields(record))
                known[id(record)] = record, _text(key), _text(value)
            _, shown, text = known[id(record)]
            table[shown] = text
    return table


def _rows(image: Image, place: Place, fields: Fields) -> Iterator[tuple[str, Any, Any]]:
    match place:
        case ("topics", "byName", _) | ("producerIds",):
            pass  # topics are made of several places
        case ("topics", "byName", name, index):
            key = {"topic": name, "partition": int(index)}
            topic_id = str(image.topic_ids[name])
            yield "partitions", key, {"topic": name, "topicId": topic_id, **key, **fields}
        case ("configs", resource):
            kind, _, name = resource.partition(":")
            key = {"resourceType": kind, "resourceName": name}
            yield "configs", key, {**key, "configs": fields}
        case ("clientQuotas", entity):
            yield "quotas", {"entity": entity}, {"entity": entity, "quotas": fields}
        case ("scram", mechanism, user):
            key = {"user": user, "mechanism": mechanism}
            yield "users", key, {**key, **fields}
        case ("features",):
            version = fields.pop("metadataVersion")
            if version is not None:
                yield _feature("metadata.version", version["level"], version["name"])
            for name, level in fields.items():
                yield _feature(name.removeprefix("finalized_"), level, None)
        case _:
            (view,) = (one for one, path in _BY_PLACE.items() if place[:-1] == path)
            key = {"tokenId": place[-1]} if view == "tokens" else {"id": place[-1]}
            if view in ("brokers", "controllers"):
                key = {"id": int(place[-1])}
            yield view, key, {**key, **fields}


def _feature(name: str, level: int, release: str | None) -> tuple[str, Any, Any]:
    value = {"feature": name, "level": level, "release": release}
    return "features", {"feature": name}, value


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def of_changes(tables: dict[str, Table]) -> dict[str, Table]:
    """The tables that ``changes`` lead to, by view."""
    return {kind.view: tables.get(kind.kind, {}) for kind in KINDS if kind.view is not None}


ALL_BUT_CHANGES = tuple(kind.view for kind in KINDS if kind.view is not None)
assert CHANGES not in ALL_BUT_CHANGES
