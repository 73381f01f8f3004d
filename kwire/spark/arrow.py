"""Decodes Arrow record batches in Spark's Python workers.

Takes batches with the columns ``offset``, ``timestamp`` and ``value`` that Spark's Kafka source
has, and ``epoch`` where there is one. Records of a layout that many share are decoded together, the
others one by one, with the same result. Knows nothing of DataFrames. A value that cannot be read
becomes a row that says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kwire.errors import DecodeError, WireError
from kwire.messages import BY_KEY
from kwire.records import metadata_record_name
from kwire.registry import message_type
from kwire.spark.bulk import Group, Layouts
from kwire.spark.columns import arrow_type, row_maker
from kwire.spark.entities import ABOUT
from kwire.spark.exact import exact_row, read, shown
from kwire.spark.values import Numbers, Values

#: Columns that pass through unchanged, before the decoded ones.
PASSED = ("offset", "timestamp")
#: Columns that ``decode_batches`` makes, with Spark's types.
DECODED = {"type": "string", "version": "int", "data": "string", "error": "string",
           "epoch": "int", "entity": "string", "key": "string"}  # fmt: skip

_NAMES = sorted(
    metadata_record_name(message_type(name))
    for (kind, _), name in BY_KEY.items()
    if kind == "metadata"
)
_CODES = {name: code for code, name in enumerate(_NAMES)}
_BAD = -1


def decode_batches(
    batches: Iterator[pa.RecordBatch],
    *,
    keep: Sequence[str],
    fail_fast: bool,
    secrets: bool,
    bulk: bool = True,
) -> Iterator[pa.RecordBatch]:
    """``offset``, ``timestamp``, then the columns of ``DECODED``, then those named in ``keep``.

    Without ``secrets``, SCRAM keys and configs that are secret are hidden. Without ``bulk`` every
    record is decoded by itself. Raises DecodeError for the first bad value if ``fail_fast``.
    """
    decoder = Decoder(fail_fast=fail_fast, secrets=secrets, bulk=bulk)
    for batch in batches:
        columns = {
            **_passed(batch, PASSED),
            **decoder.columns(Values.of(batch.column("value")), batch.column("offset")),
        }
        columns["epoch"] = (
            batch.column("epoch").cast(pa.int32())
            if "epoch" in batch.schema.names
            else columns["epoch"]
        )
        columns |= _passed(batch, keep)
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def typed_batches(
    batches: Iterator[pa.RecordBatch],
    *,
    name: str,
    keep: Sequence[str],
    fail_fast: bool,
    secrets: bool,
    bulk: bool = True,
) -> Iterator[pa.RecordBatch]:
    """``offset``, ``timestamp``, ``version``, ``record`` (a struct of message ``name``), ``error``,
    then ``keep``.

    Raises DecodeError for the first bad value, or one of another type, if ``fail_fast``.
    """
    decoder = StructDecoder(name, fail_fast=fail_fast, secrets=secrets, bulk=bulk)
    for batch in batches:
        columns = {
            **_passed(batch, PASSED),
            **decoder.columns(Values.of(batch.column("value")), batch.column("offset")),
            **_passed(batch, keep),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


class Decoder:
    """Values in, the columns of ``DECODED`` out. ``epoch`` is null, because a value does not
    contain it.
    """

    def __init__(self, *, fail_fast: bool, secrets: bool, bulk: bool = True) -> None:
        self._fail_fast, self._secrets = fail_fast, secrets
        self._layouts = Layouts(secrets=secrets) if bulk else None
        # Not constants of the module: PyArrow imports pandas when it makes its first array.
        self._types = pa.array(_NAMES, pa.string())
        self._entities = pa.array([ABOUT[name].entity for name in _NAMES], pa.string())

    def columns(self, values: Values, offsets: Sequence[Any]) -> dict[str, pa.Array]:
        """The columns for ``values``, whose ``offsets`` are for messages. Raises DecodeError if it
        is to fail fast.
        """
        groups, alone = _sorted(self._layouts, values)
        codes, versions = np.full(len(values), _BAD, np.int32), np.zeros(len(values), np.int32)
        for group in groups:
            codes[group.rows], versions[group.rows] = (
                _CODES[group.layout.name],
                group.layout.version,
            )
        texts: list[str | None] = []
        keys: list[str | None] = []
        errors: dict[int, str] = {}
        for row in alone.tolist():
            try:
                one = exact_row(values[row], secrets=self._secrets)
            except WireError as error:
                _note(error, row, offsets, errors, self._fail_fast)
                texts.append(None)
                keys.append(None)
            else:
                codes[row], versions[row] = _CODES[one.type], one.version
                texts.append(one.data)
                keys.append(one.key)
        rows, bad = [group.rows for group in groups] + [alone], codes == _BAD
        types = pa.array(codes, mask=bad)
        return {
            "type": self._types.take(types),
            "version": pa.array(versions, mask=bad),
            "data": _in_order(
                [group.json() for group in groups] + [pa.array(texts, pa.string())], rows
            ),
            "error": _errors(errors, len(values)),
            "epoch": pa.nulls(len(values), pa.int32()),
            "entity": self._entities.take(types),
            "key": _in_order(
                [group.keys() for group in groups] + [pa.array(keys, pa.string())], rows
            ),
        }


class StructDecoder:
    """Values of records of one type in; ``version``, ``record`` and ``error`` out."""

    def __init__(self, name: str, *, fail_fast: bool, secrets: bool, bulk: bool = True) -> None:
        self._cls = message_type(name)
        self._fail_fast, self._secrets = fail_fast, secrets
        self._layouts = Layouts(secrets=secrets) if bulk else None
        self._kind = arrow_type(self._cls)
        self._makers = {version: row_maker(self._cls, version) for version in self._cls.VERSIONS}

    def columns(self, values: Values, offsets: Sequence[Any]) -> dict[str, pa.Array]:
        """The columns for ``values``, whose ``offsets`` are for messages. Raises DecodeError if it
        is to fail fast.
        """
        sorted_groups, alone = _sorted(self._layouts, values)
        groups = [group for group in sorted_groups if group.layout.root.cls is self._cls]
        others = [group.rows for group in sorted_groups if group.layout.root.cls is not self._cls]
        alone = np.sort(np.concatenate([alone, *others]))
        versions, bad = np.zeros(len(values), np.int32), np.zeros(len(values), np.bool_)
        for group in groups:
            versions[group.rows] = group.layout.version
        records: list[Any] = []
        errors: dict[int, str] = {}
        for row in alone.tolist():
            try:
                name, versions[row], message = read(values[row], self._cls)
            except WireError as error:
                _note(error, row, offsets, errors, self._fail_fast)
                bad[row] = True
                records.append(None)
            else:
                records.append(
                    shown(name, self._makers[int(versions[row])](message), self._secrets)
                )
        rows = [group.rows for group in groups] + [alone]
        return {
            "version": pa.array(versions, mask=bad),
            "record": _in_order(
                [group.structs() for group in groups] + [pa.array(records, self._kind)], rows
            ),
            "error": _errors(errors, len(values)),
        }


def _sorted(layouts: Layouts | None, values: Values) -> tuple[list[Group], Numbers]:
    return ([], np.arange(len(values))) if layouts is None else layouts.groups(values)


def _note(
    error: WireError, row: int, offsets: Sequence[Any], errors: dict[int, str], fail_fast: bool
) -> None:
    if fail_fast:
        raise DecodeError(f"the value at offset {offsets[row]}: {error}") from error
    errors[row] = str(error)


def _errors(errors: dict[int, str], count: int) -> pa.Array:
    return (
        pa.array([errors.get(row) for row in range(count)], pa.string())
        if errors
        else pa.nulls(count, pa.string())
    )


def _in_order(parts: Sequence[pa.Array], rows: Sequence[Numbers]) -> pa.Array:
    """Join the parts to one column, with each value at the row that ``rows`` gives for it."""
    filled = [(part, where) for part, where in zip(parts, rows, strict=True) if len(where)]
    if not filled:
        return parts[-1]
    where = np.concatenate([one for _, one in filled])
    column = pa.concat_arrays([part for part, _ in filled])
    if (where[1:] > where[:-1]).all():
        return column
    places = np.empty(len(where), np.int64)
    places[where] = np.arange(len(where))
    return column.take(pa.array(places))


def _passed(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    return {name: batch.column(name) for name in names}
