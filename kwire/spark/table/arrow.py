"""Converts the result of a fold to Arrow tables, and reads the current state back from them. It
opens no files.

The current state of a kind carries, in a column of its own, the record of each entity: the fold
restarts from these records, so its state is stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from kwire.cluster import apply
from kwire.cluster.interned_lists import share
from kwire.messages.partition_record import PartitionRecord
from kwire.records import decode_metadata_record, encode_metadata_record
from kwire.spark.table.kinds import BY_ENTITY, TIME, Key, Kind
from kwire.spark.table.partitions import Partitions
from kwire.spark.table.rows import Change, Closed, Folded, Moment, Row, State, Trouble
from kwire.spark.table.seen import Fields, fields_text

_MILLIS: Final = pa.timestamp("ms", tz="UTC")
_SPARK_TYPES: Final = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    TIME: "timestamp_ltz",
}
#: The column of the current state that only the fold reads.
RECORD: Final = "_record"
SINCE: Final = {"validFromOffset": pa.int64(), "validFromTime": TIME}
UNTIL: Final = {"validToOffset": pa.int64(), "validToTime": TIME}
CHANGES: Final = {
    "offset": pa.int64(),
    "effectiveOffset": pa.int64(),
    "n": pa.int32(),
    "epoch": pa.int32(),
    "timestamp": TIME,
    "type": pa.string(),
    "entity": pa.string(),
    "key": pa.string(),
    "topic": pa.string(),
    "op": pa.string(),
    "before": pa.string(),
    "after": pa.string(),
}
ERRORS: Final = {
    "offset": pa.int64(),
    "timestamp": TIME,
    "type": pa.string(),
    "error": pa.string(),
}
LOAD: Final = {"minute": TIME, "type": pa.string(), "records": pa.int64(), "bytes": pa.int64()}
HELD: Final = {
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "value": pa.binary(),
    "epoch": pa.int32(),
}


def changes_table(changes: Sequence[Change]) -> pa.Table:
    """Return the changes as a table, in their order."""
    sides: list[Any] = list(zip(*changes, strict=True))
    columns = dict(zip(CHANGES, sides, strict=True))
    columns["timestamp"] = pa.array(columns["timestamp"], _MILLIS)
    both = [*columns["before"], *columns["after"]]
    texts = _texts(both, [*columns["topic"], *columns["topic"]])
    columns["before"], columns["after"] = texts[: len(changes)], texts[len(changes) :]
    return pa.table({name: _cast(columns[name], of) for name, of in CHANGES.items()})


def _texts(seen: Sequence[Any], topics: Sequence[str | None]) -> pa.Array:
    """The JSON of entities. Each is made once, and those of partitions together."""
    # ``seen`` holds the objects, so that no two have one id.
    keys = [*zip(map(id, seen), topics, strict=True)]
    different = dict(zip(keys, seen, strict=True))
    whole = {key: one for key, one in different.items() if type(one) is PartitionRecord}
    others = {key: one for key, one in different.items() if type(one) is not PartitionRecord}
    places = dict(zip(chain(whole, others), range(len(different)), strict=True))
    rows = Partitions([*whole.values()], [topic for _, topic in whole])
    texts = [None if one is None else fields_text(one) for one in others.values()]
    all_texts = pa.concat_arrays([rows.texts(), pa.array(texts, pa.string())])
    return all_texts.take(pa.array([*map(places.__getitem__, keys)], pa.int64()))


def _cast(values: Any, of: pa.DataType) -> pa.Array:
    return values.cast(of) if isinstance(values, pa.Array) else pa.array(values, of)


def errors_table(errors: Sequence[Trouble]) -> pa.Table:
    """Return the records that were ignored, each with its error, as a table."""
    return _table(ERRORS, [one._replace(timestamp=one.timestamp * 1000) for one in errors])


def load_table(folded: Folded) -> pa.Table:
    """Return the number of records of each type in each minute, and their bytes, as a table."""
    return _table(
        LOAD,
        [
            (minute * 1000, name, n, folded.load_bytes[minute, name])
            for (minute, name), n in folded.load.items()
        ],
    )


def held_table(rows: Sequence[Row]) -> pa.Table:
    """Return the records of an open transaction as a table."""
    return _table(HELD, [row[:4] for row in rows])


def held_rows(table: pa.Table) -> list[Row]:
    """Return the rows of such a table."""
    return [Row(**row) for row in table.to_pylist()]


def closed_table(kind: Kind, closed: Sequence[Closed]) -> pa.Table:
    """Return the rows of the history that have ended as a table."""
    columns = _columns(kind, [one.seen for one in closed], [one.topic for one in closed])
    columns |= _moments(SINCE, [one.since for one in closed]) | _moments(
        UNTIL, [one.until for one in closed]
    )
    return pa.table(columns)


def current_table(state: State, kind: Kind, here: Sequence[tuple[Key, Moment]]) -> pa.Table:
    """Return current entities, each with its record, as a table."""
    image = state.image
    records: list[Any] = [kind.record(image, key) for key, _ in here]
    if kind.whole:
        columns = _columns(kind, records, [image.topics.get(one.topic_id) for one in records])
    else:
        columns = _columns(kind, [kind.fields(image, record) for record in records])
    columns |= _moments(SINCE, [since for _, since in here])
    values = [encode_metadata_record(record, record.VERSIONS[-1]) for record in records]
    return pa.table({**columns, RECORD: pa.array(values, pa.binary())})


def restore(state: State, kind: Kind, table: pa.Table) -> None:
    """Put the entities of ``current_table`` back into ``state``; kinds in their order, as
    partitions need their topics.
    """
    since = [table.column(name).cast(pa.int64()).to_pylist() for name in SINCE]
    rows = zip(since[0], since[1], table.column(RECORD).to_pylist(), strict=True)
    # A topic that was made anew under its name is the one that the name means.
    for offset, micros, value in sorted(rows, key=lambda row: row[0]):
        record: Any = decode_metadata_record(value)[2]
        if kind.whole:
            share(record)
        apply(state.image, record)
        state.since[kind.entity][kind.key(record)] = Moment(offset, micros // 1000)


def empty(columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table of these columns without rows."""
    return pa.schema(list(columns.items())).empty_table()


def together(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the rows of several tables. Those of an earlier kwire may lack columns, and members of
    structs, which are null then.
    """
    return pa.concat_tables(tables, promote_options="default")


def table_columns(name: str) -> dict[str, pa.DataType]:
    """The columns of a table without its validity: ``changes``, ``errors``, ``load`` or that of a
    kind. Raises KeyError.
    """
    by_table = {kind.table: kind.columns for kind in BY_ENTITY.values()}
    return {"changes": CHANGES, "errors": ERRORS, "load": LOAD, **by_table}[name]


def spark_columns(columns: Mapping[str, pa.DataType]) -> str:
    """The columns as Spark's DDL. With it Spark reads files without a job that looks for it."""
    return ", ".join(f"`{name}` {_spark_type(of)}" for name, of in columns.items())


def _spark_type(of: pa.DataType) -> str:
    if pa.types.is_list(of):
        return f"array<{_spark_type(of.value_type)}>"
    if pa.types.is_map(of):
        return f"map<{_spark_type(of.key_type)}, {_spark_type(of.item_type)}>"
    if pa.types.is_struct(of):
        fields = (of.field(n) for n in range(of.num_fields))
        return f"struct<{', '.join(f'`{one.name}`: {_spark_type(one.type)}' for one in fields)}>"
    return _SPARK_TYPES[of]


def _columns(
    kind: Kind, rows: Sequence[Any], topics: Sequence[str | None] = ()
) -> dict[str, pa.Array]:
    if kind.whole:
        return Partitions(rows, topics).columns()
    return {name: _array(rows, name, of) for name, of in kind.columns.items()}


def _array(rows: Sequence[Fields], name: str, of: pa.DataType) -> pa.Array:
    values = [row[name] for row in rows]
    if pa.types.is_map(of):
        values = [list(value.items()) for value in values]
    elif of == TIME:
        return pa.array(values, _MILLIS).cast(TIME)
    elif pa.types.is_string(of):
        # A type newer than this code has a number in place of a word.
        values = [value if value is None else str(value) for value in values]
    elif pa.types.is_list(of) and pa.types.is_struct(of.value_type):
        values = [
            [{**one, "securityProtocol": str(one["securityProtocol"])} for one in value]
            for value in values
        ]
    return pa.array(values, of)


def _moments(columns: Mapping[str, pa.DataType], moments: Sequence[Moment]) -> dict[str, pa.Array]:
    offset, time = columns
    return {
        offset: pa.array([one.offset for one in moments], pa.int64()),
        time: pa.array([one.timestamp for one in moments], _MILLIS).cast(TIME),
    }


def _table(columns: Mapping[str, pa.DataType], rows: Sequence[Sequence[Any]]) -> pa.Table:
    sides = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return pa.table(
        {name: pa.array(side, of) for (name, of), side in zip(columns.items(), sides, strict=True)}
    )
