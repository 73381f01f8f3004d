"""Writes the SQL of the fleet's tables: made, merged into, seen as views. Pure: text from text; it
runs none.

A record is in a history once, whatever is read again: its identity there is the entity, the
generation and the offset. A state keeps the last record of an entity, a deletion too, so a record
that is read again never brings an entity back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from kwire.cluster.field_types import FieldType, ListOf, MapOf, Nullable, Struct
from kwire.cluster.view_offsets import CHANGES_MAX
from kwire.spark.fleet.views import CLUSTER_ID, ORIGINS, View

if TYPE_CHECKING:
    from kwire.spark.fleet.evolution import Lacking

_COMMENTS: Final = {name: about for name, _, about in (CLUSTER_ID, *ORIGINS)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: A value that the driver knows.
Value = str | int | datetime | None


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """Return ``text`` as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def columns(named: Sequence[tuple[str, str]]) -> str:
    """Return names with types as Spark's DDL has the columns of a schema."""
    return ", ".join(f"{quoted(name)} {type_}" for name, type_ in named)


def values(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Value]]) -> str:
    """Return the query for rows that the driver has: text, so that no job and no Python worker of
    an executor makes them. A time without a zone is of this machine's.
    """
    names = ", ".join(quoted(name) for name, _ in columns)
    of_rows = [
        f"({', '.join(_value(one, type_) for one, (_, type_) in zip(row, columns, strict=True))})"
        for row in rows or [[None] * len(columns)]
    ]
    query = f"SELECT * FROM VALUES {', '.join(of_rows)} AS of_driver({names})"
    return query if rows else f"{query} WHERE false"


def create(
    table: str,
    columns: Sequence[tuple[str, str]],
    using: str,
    about: str,
    *,
    partitioned: bool = True,
    properties: Mapping[str, str] | None = None,
) -> str:
    """Return the statement that makes a table unless it is there. ``table`` is quoted already."""
    listed = ",\n  ".join(
        f"{quoted(name)} {type_}"
        + (f" COMMENT {literal(_COMMENTS[name])}" if name in _COMMENTS else "")
        for name, type_ in columns
    )
    by = f"\nPARTITIONED BY ({quoted(CLUSTER_ID[0])})" if partitioned else ""
    given = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in (properties or {}).items())
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (\n  {listed}\n) USING {using}{by}"
        f"\nCOMMENT {literal(about)}" + (f"\nTBLPROPERTIES ({given})" if given else "")
    )


def view(name: str, query: str) -> str:
    """Return the statement that makes a temporary view. It keeps the text: a view that is made of a
    DataFrame keeps a plan, which Spark 4.1 does not find in the source of a MERGE.
    """
    return f"CREATE OR REPLACE TEMPORARY VIEW {quoted(name)} AS {query}"


def add_columns(table: str, columns: Sequence[Lacking]) -> str:
    """Return the statement that adds columns and members of structs, which a later kwire has, to a
    table, where that kwire has them.
    """
    listed = ", ".join(
        f"{'.'.join(map(quoted, one.path))} {one.type}"
        f" {'FIRST' if one.after is None else f'AFTER {quoted(one.after)}'}"
        for one in columns
    )
    return f"ALTER TABLE {table} ADD COLUMNS ({listed})"


def records(view: View, raw: str) -> str:
    """Return the query for the records of a view, typed: those that ``raw`` has of its topic.

    ``raw`` has ``cluster_id``, ``generation``, ``topic``, ``key``, ``value`` (text), ``offset`` and
    ``timestamp``. A value that is not of the view's form fails the query.
    """
    options = "map('mode', 'FAILFAST')"
    key_type = ", ".join(f"`{n}` {t}" for n, t in view.columns[1 : 1 + len(view.keys)])
    value_type = ", ".join(f"`{n}` {t}" for n, t in _values(view))
    key = f"from_json(key, {literal(key_type)}, {options})" if view.keys else "NULL"
    value = f"from_json(value, {literal(value_type)}, {options})"
    columns = [
        "cluster_id",
        *(f"k.{quoted(name)}" for name in view.keys),
        *(f"v.{quoted(name)}" for name in view.values),
        "generation",
        "offset",
        "timestamp",
        "value IS NULL AS deleted",
        f"CASE WHEN offset & {CHANGES_MAX} <> 0 THEN 'snapshot' ELSE 'change' END AS origin",
    ]
    return (
        f"SELECT {', '.join(columns)} FROM (SELECT *, {key} AS k, {value} AS v"
        f" FROM {raw} WHERE topic = {literal(view.topic)})"
    )


def malformed(views: Sequence[View]) -> str:
    """Return a condition that is true for a record that is not of its view's form."""
    cases = []
    for view in views:
        if view.keys:
            types = ", ".join(f"`{n}` {t}" for n, t in view.columns[1 : 1 + len(view.keys)])
            lacks = " OR ".join(
                f"from_json(key, {literal(types)}).{quoted(n)} IS NULL" for n in view.keys
            )
        else:
            lacks = "get_json_object(value, '$.kind') IS NULL"
        cases.append(f"WHEN {literal(view.topic)} THEN {lacks}")
    return f"CASE topic {' '.join(cases)} ELSE true END"


def news(view: View, read: str, state: str, begun: str) -> str:
    """Return the query for the records ``read`` of clusters that are read from the beginning of
    their logs again, ``begun``: without entities of a snapshot that the state has as they are, and
    with a row of origin ``gap`` for each entity that is in the state and neither in the snapshot
    nor behind its beginning.

    ``begun`` has ``cluster_id``, ``generation``, ``first`` (offset of the first record) and
    ``since`` (its time).
    """
    names = [name for name, _ in view.columns]
    same = " AND ".join(f"t.{quoted(n)} = s.{quoted(n)}" for n in view.identity)
    equal = "".join(
        f" AND {_comparable(f't.{quoted(n)}', one)} <=> {_comparable(f's.{quoted(n)}', one)}"
        for n, one in view.values.items()
    )
    gone = [
        *(f"t.{quoted(n)}" for n in view.identity),
        *(f"CAST(NULL AS {type_})" for _, type_ in _values(view)),
        "b.generation, b.first - 1, b.since, true, 'gap'",
    ]
    return (
        f"SELECT {_listed('s', names)} FROM {read} s WHERE NOT (s.origin = 'snapshot' AND EXISTS"
        f" (SELECT 1 FROM {state} t WHERE {same} AND NOT t.deleted{equal}))"
        f" UNION ALL SELECT {', '.join(gone)} FROM {state} t JOIN {begun} b"
        " ON t.cluster_id = b.cluster_id"
        " WHERE NOT t.deleted AND (t.generation < b.generation"
        " OR (t.generation = b.generation AND t.offset < b.first))"
        f" AND NOT EXISTS (SELECT 1 FROM {read} s WHERE {same} AND s.origin = 'snapshot')"
    )


def some_of(state: str, clusters: Sequence[str]) -> str:
    """Return the query for any entity of ``clusters`` that ``state`` has: one row, or none."""
    listed = ", ".join(map(literal, sorted(clusters)))
    return f"SELECT cluster_id FROM {state} WHERE cluster_id IN ({listed}) LIMIT 1"


def without_repeated(rows: str, clusters: Sequence[str]) -> str:
    """Return the query for ``rows`` without those of a snapshot that only says again what was read
    of ``clusters`` before.
    """
    if not clusters:
        return f"SELECT * FROM {rows}"
    listed = ", ".join(map(literal, clusters))
    return f"SELECT * FROM {rows} WHERE NOT (origin = 'snapshot' AND cluster_id IN ({listed}))"


def last(view: View, rows: str) -> str:
    """Return the query for the last of ``rows`` of each entity."""
    names = [name for name, _ in view.columns]
    identity = ", ".join(map(quoted, view.identity))
    return (
        f"SELECT {_listed('r', names)} FROM (SELECT *, row_number() OVER (PARTITION BY {identity}"
        f" ORDER BY generation DESC, offset DESC) AS rank FROM {rows}) r WHERE rank = 1"
    )


def insert(view: View, table: str, rows: str) -> str:
    """Return the statement that adds ``rows`` of clusters that ``table`` has no row of."""
    names = [name for name, _ in view.columns]
    return (
        f"INSERT INTO {table} ({', '.join(map(quoted, names))})"
        f" SELECT {_listed('s', names)} FROM {rows} s"
    )


def merge_history(view: View, table: str, rows: str, since: Mapping[str, int]) -> str:
    """Return the statement that adds to a history those of ``rows`` that it lacks. ``since`` has
    the clusters of the rows, each with its lowest offset, so that other files are not read.
    """
    names = [name for name, _ in view.columns]
    within = " OR ".join(
        f"(t.cluster_id = {literal(one)} AND t.offset >= {offset})"
        for one, offset in sorted(since.items())
    )
    return (
        f"MERGE INTO {table} t USING {rows} s"
        f" ON ({within}) AND {_same((*view.identity, 'generation', 'offset'))}"
        f" WHEN NOT MATCHED THEN {_insert(names)}"
    )


def merge_state(view: View, table: str, rows: str, clusters: Sequence[str]) -> str:
    """Return the statement that brings a state up to ``rows``, one for each entity at most, of
    ``clusters``.
    """
    names = [name for name, _ in view.columns]
    later = "s.generation > t.generation OR (s.generation = t.generation AND s.offset > t.offset)"
    return (
        f"MERGE INTO {table} t USING {rows} s ON {_of(clusters)} AND {_same(view.identity)}"
        f" WHEN MATCHED AND ({later}) THEN UPDATE SET {_set(names)}"
        f" WHEN NOT MATCHED THEN {_insert(names)}"
    )


def merge_rows(table: str, rows: str, names: Sequence[str], key: Sequence[str]) -> str:
    """Return the statement that writes ``rows`` over those of ``table`` with the same ``key``."""
    return (
        f"MERGE INTO {table} t USING {rows} s ON {_same(key)}"
        f" WHEN MATCHED THEN UPDATE SET {_set(names)}"
        f" WHEN NOT MATCHED THEN {_insert(names)}"
    )


def present(state: str) -> str:
    """Return the query for the entities that exist."""
    return f"SELECT * FROM {state} WHERE NOT deleted"


def versions(view: View, history: str) -> str:
    """Return the query for every version of every entity, with the times and the offsets at which
    it began and ended; the latter are null for present ones.
    """
    identity = ", ".join(map(quoted, view.identity))
    names = [name for name, _ in view.columns if name != "deleted"]
    over = f"OVER (PARTITION BY {identity} ORDER BY generation, offset)"
    return (
        f"SELECT {_listed('h', names)}, timestamp AS valid_from, valid_to,"
        " offset AS valid_from_offset, valid_to_offset FROM (SELECT *,"
        f" lead(timestamp) {over} AS valid_to, lead(offset) {over} AS valid_to_offset"
        f" FROM {history}) h WHERE NOT deleted"
    )


def _value(one: Value, type_: str) -> str:
    match one:
        case None:
            return f"CAST(NULL AS {type_})"
        case str():
            return literal(one)
        case datetime():
            return (
                f"timestamp_micros({(one.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)})"
            )
        case _:
            return f"CAST({one} AS {type_})"


def _values(view: View) -> tuple[tuple[str, str], ...]:
    return view.columns[1 + len(view.keys) : -len(ORIGINS)]


def _same(names: Sequence[str]) -> str:
    return " AND ".join(f"t.{quoted(n)} = s.{quoted(n)}" for n in names)


def _of(clusters: Sequence[str]) -> str:
    """The partitions that a statement changes, named so that no other is read or locked."""
    return f"t.cluster_id IN ({', '.join(map(literal, sorted(clusters)))})"


def _set(names: Sequence[str]) -> str:
    return ", ".join(f"t.{quoted(n)} = s.{quoted(n)}" for n in names)


def _insert(names: Sequence[str]) -> str:
    listed = ", ".join(map(quoted, names))
    return f"INSERT ({listed}) VALUES ({', '.join(f's.{quoted(n)}' for n in names)})"


def _listed(alias: str, names: Sequence[str]) -> str:
    return ", ".join(f"{alias}.{quoted(name)}" for name in names)


def _comparable(column: str, type_: FieldType) -> str:
    """A column as something that Spark compares; it does not compare maps."""
    match type_:
        case Nullable(inner):
            return _comparable(column, inner)
        case MapOf():
            return f"array_sort(map_entries({column}))"
        case ListOf(MapOf()) | Struct():
            return f"to_json({column})"
        case _:
            return column
