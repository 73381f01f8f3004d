"""The tables of every test log in each format, read by Spark: equal to one another, to the image at
a hundred random offsets, and to those that one fold on the driver wrote.

``test_spark_42`` runs this with the other release of PySpark, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")
    pytest.importorskip("deltalake", reason="deltalake is not installed (the extra 'delta' has it)")
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed (the extra 'iceberg' has)")

import numpy as np
import pyarrow as pa
import pyspark

from kwire.cluster import Image, Loader
from kwire.jars.spark import DELTA_FOR
from kwire.spark import read_table, tables
from kwire.spark.table.build import TABLES
from kwire.spark.table.kinds import KINDS, Kind
from kwire.spark.table.names import KEYS
from kwire.spark.table.store import Format
from tests.kwire.spark.session import spark_session
from tests.kwire.spark.table_rows import entity_at, load, rows_of
from tests.shared import LOG_NAMES, needs_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [needs_shared, pytest.mark.timeout(900)]

FORMATS: Final[list[Format]] = ["parquet", "delta", "iceberg"]
VALID: Final = ("validFromOffset", "validFromTime", "validToOffset", "validToTime")
OFFSETS: Final = 100
#: The logs. The largest one takes as long as all others together, and has nothing of which the
#: older release of PySpark would make other rows.
NAMES: Final = [
    name
    for name in LOG_NAMES
    if name != "p-large" or not pyspark.__version__.startswith(f"{DELTA_FOR}.")
]
#: Log -> table -> number of rows and their digest, of a release of the tables whose only fold was
#: one on the driver, from the first record to the last.
BEFORE: Final = Path(__file__).with_name("tables_before.json")
#: The columns by which the rows of a table have one order.
ORDER: Final = {
    "changes": ("effectiveOffset", "offset", "n"),
    "errors": ("offset", "error"),
    "load": ("minute", "type"),
    **{kind.table: (*KEYS[kind.entity], "validFromOffset") for kind in KINDS},
}
#: Behind every offset.
_NEVER: Final = 1 << 62
#: A set of rows is compared by the sum of their digests.
_DIGESTS: Final = 1 << 64


def digest(row: dict[str, Any]) -> int:
    """A number for a row; equal rows have the same, and others have others."""
    text = json.dumps(row, sort_keys=True, default=str)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class Rows:
    """Rows of a table of one cluster, each as a digest, and when it was valid."""

    def __init__(self, table: pa.Table) -> None:
        maps = [one.name for one in table.schema if pa.types.is_map(one.type)]
        content = table.drop_columns([name for name in VALID if name in table.column_names])
        for n, one in enumerate(content.schema):
            if pa.types.is_timestamp(one.type):
                content = content.set_column(n, one.name, micros(content.column(n)))
        rows = content.to_pylist()
        for row in rows:
            row |= {name: dict(row[name]) for name in maps}
        self.digests = np.array([*map(digest, rows)], np.uint64)
        if VALID[2] in table.column_names:
            self._since, self._until = (
                table.column(name).fill_null(_NEVER).to_numpy() for name in (VALID[0], VALID[2])
            )

    def at(self, offset: int) -> tuple[int, int]:
        """The number and the digest of the rows that are valid behind the record at ``offset``."""
        valid = (self._since <= offset) & (self._until > offset)
        return int(valid.sum()), int(self.digests[valid].sum())


def micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def whole(table: pa.Table) -> list[Any]:
    """The number of rows, and a digest of all of them with their validity."""
    named = {
        {VALID[0]: "from", VALID[2]: "to"}.get(name, name): table.column(name)
        for name in table.column_names
        if name not in ("validFromTime", "validToTime", "epoch")
    }
    digests = Rows(pa.table(named)).digests
    return [len(digests), f"{int(digests.sum()):016x}"]


class Said:
    """The entities of an image as digests; those of partitions are kept, as their records are."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, kind: Kind, image: Image) -> tuple[int, int]:
        found = [*self._digests(kind, image)]
        return len(found), sum(found) % _DIGESTS

    def _digests(self, kind: Kind, image: Image) -> Iterator[int]:
        for key in kind.keys(image):
            record = kind.record(image, key) if kind.whole else None
            known = self._known.get(id(record))
            if record is None:
                yield digest(self._fields(kind, image, key))
            elif known is None:
                self._known[id(record)] = record, digest(self._fields(kind, image, key))
                yield self._known[id(record)][1]
            else:
                yield known[1]

    @staticmethod
    def _fields(kind: Kind, image: Image, key: Any) -> dict[str, Any]:
        fields = entity_at(kind, image, key)
        return {name: fields[name] for name in kind.columns}


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session(kafka=False)


@pytest.fixture(scope="module")
def directories(logs: Any) -> dict[str, Path]:
    return {name: min((logs(name) / "nodes").iterdir()) for name in NAMES}


@pytest.fixture(scope="module")
def roots(
    spark: SparkSession, directories: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[Format, str]:
    """Format -> the tables of all logs. ``cluster_id`` is the log's name."""
    sources = {name: str(directory) for name, directory in directories.items()}
    found = {kept: str(tmp_path_factory.mktemp(kept) / "tables") for kept in FORMATS}
    for kept, root in found.items():
        tables(spark, sources, root, format=kept)
    return found


@pytest.fixture(scope="module")
def read(spark: SparkSession, roots: dict[Format, str]) -> dict[Format, dict[str, pa.Table]]:
    """Format -> name -> every row of all logs."""
    kinds = {kind.table for kind in KINDS}
    return {
        kept: {
            name: read_table(spark, root, name, history=name in kinds).toArrow() for name in TABLES
        }
        for kept, root in roots.items()
    }


def of(table: pa.Table, log: str) -> pa.Table:
    """The rows of one log, without the column of the cluster."""
    mine = table.filter(pa.compute.field("cluster_id") == log)
    return mine.drop_columns(
        [name for name in ("cluster_id", "source") if name in mine.column_names]
    )


def nullable(table: pa.Table) -> pa.Table:
    """The same columns; Spark says of a column that it made itself that it is never null."""
    return pa.table({name: table.column(name).combine_chunks() for name in table.column_names})


@pytest.mark.parametrize("name", TABLES)
def test_formats_have_the_same_rows(name: str, read: dict[Format, dict[str, pa.Table]]) -> None:
    by = [(column, "ascending") for column in ("cluster_id", *ORDER[name])]
    first, *others = (nullable(read[kept][name].sort_by(by)) for kept in FORMATS)
    assert all(one.equals(first) for one in others)
    assert first.num_rows or name in ("errors", "tokens")


@pytest.mark.parametrize("log", NAMES)
def test_tables_are_the_image_at_a_hundred_offsets(
    log: str, directories: dict[str, Path], read: dict[Format, dict[str, pa.Table]]
) -> None:
    """Of one format, as the others have the same rows."""
    records = rows_of(directories[log] / "__cluster_metadata-0")
    asked = set(
        random.Random(log).sample([row.offset for row in records], min(OFFSETS, len(records)))
    )
    stored = {kind.table: Rows(of(read["parquet"][kind.table], log)) for kind in KINDS}
    loader, said, compared = Loader(), Said(), 0
    for row in records:
        load(loader, row)
        if row.offset in asked:
            # Behind a record within a transaction the state is that before it.
            compared += 1
            for kind in KINDS:
                found, expected = stored[kind.table].at(row.offset), said.of(kind, loader.image)
                assert found == expected, (kind.table, row.offset)
    assert compared == min(OFFSETS, len(records))


@pytest.mark.parametrize("log", NAMES)
def test_tables_are_those_of_one_fold_on_the_driver(
    log: str, read: dict[Format, dict[str, pa.Table]]
) -> None:
    before = json.loads(BEFORE.read_text(encoding="utf-8"))[log]
    assert {name: whole(of(read["parquet"][name], log)) for name in TABLES} == before


#: Each format has the present state of one table, and that of another at an offset.
AS_OF: Final[dict[Format, list[tuple[str, int | None]]]] = {
    "parquet": [("partitions", 300), ("configs", None)],
    "delta": [("partitions", None), ("configs", 700)],
    "iceberg": [("partitions", 300), ("configs", None)],
}


@pytest.mark.parametrize("kept", FORMATS)
def test_present_and_as_of_are_parts_of_the_history(
    kept: Format,
    spark: SparkSession,
    roots: dict[Format, str],
    read: dict[Format, dict[str, pa.Table]],
) -> None:
    for name, offset in AS_OF[kept]:
        every = read_table(spark, roots[kept], name, as_of=offset)
        found = every.where(every.cluster_id.isin(NAMES)).toArrow()
        for log in NAMES:
            at = _NEVER - 1 if offset is None else offset
            rows = Rows(of(found, log)).digests
            expected = Rows(of(read["parquet"][name], log)).at(at)
            assert (len(rows), int(rows.sum())) == expected, (name, offset, log)
