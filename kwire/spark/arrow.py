"""Record batches of Arrow in, record batches out: what runs in Spark's Python workers, one decode a record.

Takes batches with the columns ``offset``, ``timestamp`` and ``value`` that Spark's Kafka source has. Knows nothing of
DataFrames. A value that cannot be read becomes a row that says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from kwire.errors import DecodeError, WireError
from kwire.message import Message
from kwire.records import decode_metadata_record
from kwire.records.redact import redact
from kwire.registry import message_type
from kwire.spark.columns import arrow_type, row_maker

#: What passes through unchanged, before what is decoded.
PASSED = ("offset", "timestamp")
Decoded = tuple[str, int, Message]


def decode_batches(
    batches: Iterator[pa.RecordBatch], *, keep: Sequence[str], fail_fast: bool, secrets: bool
) -> Iterator[pa.RecordBatch]:
    """``offset``, ``timestamp``, ``type``, ``version``, ``data`` (JSON), ``error``, then the columns named in ``keep``.

    Without ``secrets``, SCRAM keys and configs that are secret are hidden. Raises DecodeError for the first bad value
    if ``fail_fast``.
    """
    shown = _as_it_is if secrets else redact
    for batch in batches:
        types: list[str | None] = []
        versions: list[int | None] = []
        texts: list[str | None] = []
        errors: list[str | None] = []
        for one in _decoded(batch, fail_fast):
            good = None if isinstance(one, str) else one
            types.append(good and good[0])
            versions.append(good and good[1])
            texts.append(good and _json(shown(good[0], good[2].to_json(good[1]))))
            errors.append(None if good else str(one))
        columns = {
            **_passed(batch, PASSED),
            "type": pa.array(types, pa.string()),
            "version": pa.array(versions, pa.int32()),
            "data": pa.array(texts, pa.string()),
            "error": pa.array(errors, pa.string()),
            **_passed(batch, keep),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def typed_batches(
    batches: Iterator[pa.RecordBatch], *, name: str, keep: Sequence[str], fail_fast: bool, secrets: bool
) -> Iterator[pa.RecordBatch]:
    """``offset``, ``timestamp``, ``version``, ``record`` (a struct of message ``name``), ``error``, then ``keep``.

    Raises DecodeError for the first bad value, or one of another type, if ``fail_fast``.
    """
    cls = message_type(name)
    shown = _as_it_is if secrets else redact
    kind, makers = arrow_type(cls), {version: row_maker(cls, version) for version in cls.VERSIONS}
    for batch in batches:
        versions: list[int | None] = []
        rows: list[dict[str, Any] | None] = []
        errors: list[str | None] = []
        for one in _decoded(batch, fail_fast, cls):
            good = None if isinstance(one, str) else one
            versions.append(good and good[1])
            rows.append(good and shown(good[0], makers[good[1]](good[2])))
            errors.append(None if good else str(one))
        columns = {
            **_passed(batch, PASSED),
            "version": pa.array(versions, pa.int32()),
            "record": pa.array(rows, kind),
            "error": pa.array(errors, pa.string()),
            **_passed(batch, keep),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _decoded(batch: pa.RecordBatch, fail_fast: bool, wanted: type[Message] | None = None) -> Iterator[Decoded | str]:
    """For each row (type, version, message), or the sentence that says what is wrong with its value."""
    for at, value in enumerate(batch.column("value").to_pylist()):
        try:
            yield _read(value, wanted)
        except WireError as error:
            if fail_fast:
                raise DecodeError(f"the value at offset {batch.column('offset')[at]}: {error}") from error
            yield str(error)


def _read(value: bytes | None, wanted: type[Message] | None) -> Decoded:
    if value is None:
        raise DecodeError("the value is null, so it is no metadata record")
    name, version, message = decode_metadata_record(value)
    if wanted is not None and type(message) is not wanted:
        raise DecodeError(f"a {name}, not a {wanted.NAME}")
    return name, version, message


def _as_it_is(record_type: str, data: dict[str, Any]) -> dict[str, Any]:
    return data


_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


def _passed(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    return {name: batch.column(name) for name in names}
