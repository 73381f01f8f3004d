"""Makes the columns of ``kwire.spark.decode`` from Kafka's records, for ``format("kwire")``. It
knows no source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from kwire.spark.arrow import DECODED, Decoder
from kwire.spark.record_columns import Columns
from kwire.spark.source.options import Settings

_SOURCE: Final = {"offset": "bigint", "timestamp": "timestamp"}
_KEPT: Final = {"value": "binary", "file": "string"}
_ARROW: Final[dict[str, pa.DataType]] = {
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "int": pa.int32(),
    "binary": pa.binary(),
}


def schema_of(keep: Sequence[str]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in _columns(keep).items())


class Rows:
    """Converts the records of one task to batches of columns. Layouts that it has learned are used
    for all its batches.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._decoder = Decoder(fail_fast=settings.fail_fast, secrets=settings.secrets)

    def of(self, records: Columns, file: str = "") -> Iterator[pa.RecordBatch]:
        """Yield the batch of the records that are of a requested type; no batch if there are none.

        Other records are dropped by the first bytes of their values. Raises DecodeError with
        ``fail_fast``.
        """
        records = self._wanted(records)
        if not len(records):
            return
        offsets = pa.array(records.offsets)
        columns = {
            "offset": offsets,
            "timestamp": pa.array(records.times * 1000, _ARROW["timestamp"]),
            **self._decoder.columns(records.values, offsets),
            "epoch": pa.array(records.epochs.astype("int32")),
        }
        for name in self._settings.keep:
            columns[name] = (
                records.values.to_arrow()
                if name == "value"
                else pa.repeat(pa.scalar(file), len(records))
            )
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _wanted(self, records: Columns) -> Columns:
        only, without = self._settings.only, self._settings.without
        if only is not None:
            records = records.where(records.values.begin_with(only))
        return records.where(~records.values.begin_with(without)) if without else records


def damaged(error: str, settings: Settings, *, offset: int | None, file: str) -> pa.RecordBatch:
    """Return one row that describes an unreadable place; ``offset`` is the first that was expected
    there.
    """
    columns = _columns(settings.keep)
    row: dict[str, Any] = {"offset": offset, "error": error, "file": file}
    arrays = [pa.array([row.get(name)], _ARROW[kind]) for name, kind in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _columns(keep: Sequence[str]) -> dict[str, str]:
    return {**_SOURCE, **DECODED, **{name: _KEPT[name] for name in keep}}
