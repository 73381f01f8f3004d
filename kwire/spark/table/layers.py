"""Keeps the current state of a kind of entity in layers of files, as a log-structured merge tree
does: a commit adds a file with what changed, and files are merged when that is worth it. It opens
no files.

A layer has the rows that began with its commits, and marks for rows of earlier layers that ended.
A row and its mark have the same ``validFromOffset`` and the same ``KEY``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import pyarrow as pa

from kwire.spark.table.arrow import SINCE, current_table, together
from kwire.spark.table.kinds import Key, Kind
from kwire.spark.table.rows import Moment, State
from kwire.spark.table.tiers import level_of

#: A number that tells an entity from the others that changed with the same record.
KEY: Final = "_key"
#: True for a mark, null for a row.
GONE: Final = "_gone"
MARKS: Final = {KEY: pa.int64(), GONE: pa.bool_()}
#: A state of at most so many entities is written whole: that costs no more than a small file.
SMALL: Final = 2_000
_SINCE: Final = next(iter(SINCE))
#: The level of a layer that was written from the whole state. No other one reaches it.
_WHOLE: Final = 1_000


class Layer(NamedTuple):
    """A file, the numbers of its rows and marks, and its level (``tiers``)."""

    file: str
    rows: int
    marks: int
    level: int = 0


class Step(NamedTuple):
    """A file to be written in place of the layers ``of``, which are the last ones."""

    table: pa.Table
    level: int
    of: Sequence[Layer] = ()

    def layer(self, file: str) -> Layer:
        """The layer, once it is written."""
        marks = _count(self.table)
        return Layer(file, self.table.num_rows - marks, marks, self.level)


def _count(table: pa.Table) -> int:
    return int(table.num_rows - table.column(GONE).null_count)


def change(
    layers: Sequence[Layer], state: State, kind: Kind, before: Mapping[Key, Moment | None]
) -> Step | None:
    """The file for a commit in which the entities ``before`` changed, which had their states since
    those moments, None if they did not exist; None if nothing is different.
    """
    since = state.since[kind.entity]
    new = [(key, since[key]) for key, was in before.items() if since.get(key, was) != was]
    ended = [(key, was) for key, was in before.items() if was and since.get(key) != was]
    if not new and not ended:
        return None
    stored = sum(one.rows + one.marks for one in layers) + len(new) + len(ended)
    if not layers or len(since) <= SMALL or stored > 2 * len(since):
        return Step(_rows(state, kind, list(since.items())), _WHOLE, layers)
    marks = _marks(kind, ended, current_table(state, kind, []).schema)
    table = pa.concat_tables([_rows(state, kind, new), marks])
    return Step(table, level_of(table.num_rows))


def merged(layers: Sequence[Layer], level: int, tables: Iterable[pa.Table]) -> Step:
    """One layer in place of several, without the rows that ended within them."""
    return Step(_cancelled(together(tables)), level, layers)


def living(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of all layers of a kind that no mark ends, without the columns of marks."""
    rows = _cancelled(together(tables))
    return rows.drop_columns([name for name in MARKS if name in rows.column_names])


def _rows(state: State, kind: Kind, here: Sequence[tuple[Key, Moment]]) -> pa.Table:
    table = current_table(state, kind, here)
    keys = pa.array([_number(kind, key) for key, _ in here], pa.int64())
    return table.append_column(KEY, keys).append_column(GONE, pa.nulls(len(here), pa.bool_()))


def _marks(kind: Kind, ended: Sequence[tuple[Key, Moment]], schema: pa.Schema) -> pa.Table:
    columns = {one.name: pa.nulls(len(ended), one.type) for one in schema}
    columns[_SINCE] = pa.array([was.offset for _, was in ended], pa.int64())
    columns[KEY] = pa.array([_number(kind, key) for key, _ in ended], pa.int64())
    columns[GONE] = pa.repeat(pa.scalar(True), len(ended))
    return pa.table(columns)


def _number(kind: Kind, key: Key) -> int:
    digest = blake2b(kind.text(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _cancelled(table: pa.Table) -> pa.Table:
    """Leave out each row with its mark. Marks of rows that are not here stay."""
    if GONE not in table.column_names or not _count(table):
        return table
    since, keys, gone = (table.column(name).to_pylist() for name in (_SINCE, KEY, GONE))
    places = [*zip(since, keys, strict=True)]
    marks = {place for place, is_mark in zip(places, gone, strict=True) if is_mark}
    rows = {place for place, is_mark in zip(places, gone, strict=True) if not is_mark}
    both = marks & rows
    return table.filter(pa.array([place not in both for place in places], pa.bool_()))
