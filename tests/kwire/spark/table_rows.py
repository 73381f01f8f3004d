"""Rows of a log directory as the tables take them, and the rows that an image calls for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from kwire.cluster import Image, Loader
from kwire.message import Message
from kwire.metadata_log.reader import read_log_file
from kwire.records import decode_metadata_record
from kwire.spark.table.arrow import SINCE, UNTIL, empty, table_columns
from kwire.spark.table.fold import without_secrets
from kwire.spark.table.kinds import KINDS, Key, Kind
from kwire.spark.table.layers import living
from kwire.spark.table.names import APPENDED
from kwire.spark.table.rows import Row
from kwire.spark.table.store import Store


def rows_of(directory: Path, snapshot: Path | None = None) -> list[Row]:
    """The data records, those of ``snapshot`` first, or of the oldest one needed where the log
    starts behind offset 0.
    """
    segments = sorted(directory.glob("*.log"))
    start = int(segments[0].name[:20])
    rows: list[Row] = []
    end = 0
    if start and snapshot is None:
        snapshot = min(p for p in directory.glob("*.checkpoint") if int(p.name[:20]) >= start)
    if snapshot is not None:
        end = int(snapshot.name[:20])
        count = (
            max(record.offset for _, records in read_log_file(snapshot) for record in records) + 1
        )
        rows = [row._replace(offset=end - count + row.offset) for row in _records(snapshot)]
    return rows + [row for segment in segments for row in _records(segment) if row.offset >= end]


def _records(file: Path) -> Iterator[Row]:
    for header, records in read_log_file(file):
        for r in () if header.is_control else records:
            yield Row(r.offset, r.timestamp, r.value, header.partition_leader_epoch)


def load(loader: Loader, row: Row) -> None:
    """Fold one row the ordinary way, without its secrets."""
    name, _, record = decode_metadata_record(row.value or b"")
    loader.load(without_secrets(name, record), row.offset, -1)


def stored_rows(store: Store, name: str) -> pa.Table:
    """Every row of a table, read without Spark; of a kind the ended ones too."""
    manifest = store.manifest
    columns = columns_of(name)
    files = [file for file, _ in manifest.appended.get(name, [])]
    parts = [store.read([file]) for file in files]
    if layers := manifest.current.get(next((k.entity for k in KINDS if k.table == name), "")):
        parts.append(living(store.read([layer.file]) for layer in layers))
    rows = pa.concat_tables([empty(columns), *(_with_columns(one, columns) for one in parts)])
    if name != "load":
        return rows
    summed = rows.group_by(["minute", "type"]).aggregate([("records", "sum"), ("bytes", "sum")])
    return summed.rename_columns(["minute", "type", "records", "bytes"]).select(list(columns))


def columns_of(name: str) -> dict[str, Any]:
    """The columns of a table; those of a kind with their validity."""
    return table_columns(name) if name in APPENDED else {**table_columns(name), **SINCE, **UNTIL}


def _with_columns(rows: pa.Table, columns: dict[str, Any]) -> pa.Table:
    return pa.table(
        {
            one: rows.column(one) if one in rows.column_names else pa.nulls(rows.num_rows, of)
            for one, of in columns.items()
        }
    )


#: (kind, key) and the columns of an entity.
Entity = tuple[tuple[str, str], Any]


def contents(
    image: Image, known: dict[int, tuple[Message, Entity]] | None = None
) -> dict[tuple[str, str], Any]:
    """Every entity of ``image``: (kind, key) -> columns.

    ``known`` remembers partitions between calls on one image: a record in an image is never
    changed, but replaced.
    """
    return dict(_entity(kind, image, key, known) for kind in KINDS for key in kind.keys(image))


def entity_at(kind: Kind, image: Image, key: Key) -> Any:
    """The columns of the entity ``key``, None where it does not exist."""
    record = kind.record(image, key)
    return None if record is None else kind.fields(image, record)


def _entity(
    kind: Kind, image: Image, key: Key, known: dict[int, tuple[Message, Entity]] | None
) -> Entity:
    if known is None or kind.entity != "partition":
        return (kind.entity, kind.text(key)), entity_at(kind, image, key)
    record = image.partitions[key[0]][key[1]]
    if id(record) not in known:
        entity = (kind.entity, kind.text(key)), kind.fields(image, record)
        known[id(record)] = record, entity  # with the record, so that no other one gets its id
    return known[id(record)][1]
