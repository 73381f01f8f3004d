"""Kafka's records in, the columns of ``kwire.spark.decode`` out: what ``format("kwire")`` gives. Knows no source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kwire.spark.arrow import decode_batches
from kwire.spark.source_options import Settings

_COLUMNS: Final[dict[str, tuple[str, pa.DataType]]] = {
    "offset": ("bigint", pa.int64()),
    "timestamp": ("timestamp", pa.timestamp("us", tz="UTC")),
    "type": ("string", pa.string()),
    "version": ("int", pa.int32()),
    "data": ("string", pa.string()),
    "error": ("string", pa.string()),
    "epoch": ("int", pa.int32()),
    "entity": ("string", pa.string()),
    "key": ("string", pa.string()),
}
_KEPT: Final[dict[str, tuple[str, pa.DataType]]] = {
    "value": ("binary", pa.binary()),
    "file": ("string", pa.string()),
}


class Raw(NamedTuple):
    """One record as it was read; the timestamp is in ms since the epoch."""

    offset: int
    timestamp: int
    epoch: int
    key: bytes | None
    value: bytes | None


def schema_of(keep: Sequence[str]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{name}` {kind}" for name, (kind, _) in _columns(keep).items())


def wanted(records: Iterable[Raw], settings: Settings) -> Iterator[Raw]:
    """The records of the types asked for, by the first bytes of the value; nothing is decoded for it."""
    only, without = settings.only, settings.without
    for record in records:
        value = record.value or b""
        if (only is None or value.startswith(only)) and not value.startswith(without):
            yield record


def decoded(records: Sequence[Raw], settings: Settings, file: str = "") -> Iterator[pa.RecordBatch]:
    """The batch of columns for ``records``, nothing for none. Raises DecodeError for a bad value if ``fail_fast``."""
    if not records:
        return
    offsets, times, epochs, _, values = zip(*records, strict=True)
    raw: dict[str, pa.Array] = {
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array([ms * 1000 for ms in times], pa.timestamp("us", tz="UTC")),
        "value": pa.array(values, pa.binary()),
        "epoch": pa.array(epochs, pa.int32()),
        "file": pa.array([file] * len(records), pa.string()),
    }
    batch = pa.RecordBatch.from_arrays(list(raw.values()), names=list(raw))
    yield from decode_batches(iter([batch]), keep=settings.keep, fail_fast=settings.fail_fast, secrets=settings.secrets)


def damaged(error: str, settings: Settings, *, offset: int | None, file: str) -> pa.RecordBatch:
    """One row that says what could not be read; ``offset`` is the first that was meant to be there."""
    columns = _columns(settings.keep)
    row: dict[str, Any] = {"offset": offset, "error": error, "file": file}
    arrays = [pa.array([row.get(name)], kind) for name, (_, kind) in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _columns(keep: Sequence[str]) -> dict[str, tuple[str, pa.DataType]]:
    return {**_COLUMNS, **{name: _KEPT[name] for name in keep}}
