"""The tables of every test log: equal to the image at many random offsets, and to those that an
earlier release wrote.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="the spark extra is not installed")

import numpy as np
import pyarrow as pa

from kwire.cluster import Image, Loader
from kwire.spark.table.builder import Builder
from kwire.spark.table.kinds import KINDS, Kind
from kwire.spark.table.log import DirectoryLog
from kwire.spark.table.names import NAMES
from kwire.spark.table.store import Store
from tests.kwire.spark.table_rows import entity_at, load, rows_of, stored_rows
from tests.shared import LOG_NAMES, needs_shared

pytestmark = needs_shared

VALID: Final = ("validFromOffset", "validFromTime", "validToOffset", "validToTime")
#: Offsets of a log; of one with a large image.
OFFSETS: Final = 100
OFFSETS_OF_LARGE: Final = 20
#: Log -> table -> number of rows and their digest, of a release of the tables whose only fold was
#: one on the driver, from the first record to the last.
BEFORE: Final = Path(__file__).with_name("tables_before.json")
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
        return {
            name: fields[name] * 1000 if pa.types.is_timestamp(of) else fields[name]
            for name, of in kind.columns.items()
        }


@pytest.fixture(scope="module", params=LOG_NAMES)
def built(
    request: Any, logs: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, dict[str, pa.Table]]:
    """A log, its directory, and every row of its tables."""
    directory = min((logs(request.param) / "nodes").iterdir())
    path = str(tmp_path_factory.mktemp(request.param))
    Builder(path).bring(DirectoryLog(str(directory)))
    store = Store(path)
    return request.param, directory, {name: stored_rows(store, name) for name in NAMES}


def test_tables_are_the_image_at_random_offsets(
    built: tuple[str, Path, dict[str, pa.Table]],
) -> None:
    log, directory, tables = built
    records = rows_of(directory / "__cluster_metadata-0")
    most = min(OFFSETS_OF_LARGE if log == "p-large" else OFFSETS, len(records))
    asked = set(random.Random(log).sample([row.offset for row in records], most))
    stored = {kind.table: Rows(tables[kind.table]) for kind in KINDS}
    loader, said, compared = Loader(), Said(), 0
    for row in records:
        load(loader, row)
        if row.offset in asked:
            # Behind a record within a transaction the state is that before it.
            compared += 1
            for kind in KINDS:
                found, expected = stored[kind.table].at(row.offset), said.of(kind, loader.image)
                assert found == expected, (kind.table, row.offset)
    assert compared == most


def test_tables_are_those_of_an_earlier_release(
    built: tuple[str, Path, dict[str, pa.Table]],
) -> None:
    log, _, tables = built
    before = json.loads(BEFORE.read_text(encoding="utf-8"))[log]
    tokens = _times_as_numbers(tables["tokens"])
    assert {name: whole(table) for name, table in {**tables, "tokens": tokens}.items()} == before


def _times_as_numbers(tokens: pa.Table) -> pa.Table:
    """The times of tokens were numbers of milliseconds in the earlier release."""
    for name in ("issueTimestamp", "maxTimestamp", "expiryTimestamp"):
        at = tokens.column_names.index(name)
        ms = tokens.column(name).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        tokens = tokens.set_column(at, name, ms)
    return tokens
