"""Provides functions on DataFrames of Spark's Kafka source, batch or streaming: filter by record
type, decode, typed columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kwire.messages import BY_KEY
from kwire.registry import message_type
from kwire.spark.arrow import DECODED, PASSED, decode_batches, typed_batches
from kwire.spark.columns import spark_type
from kwire.spark.record_types import type_key, type_prefix

#: How a value that cannot be decoded is handled, in the terms of Spark's JSON and CSV sources.
Mode = Literal["PERMISSIVE", "FAILFAST"]


def decode(
    df: DataFrame, *, keep: Sequence[str] = (), mode: Mode = "PERMISSIVE", secrets: bool = False
) -> DataFrame:
    """The records of ``df`` decoded: offset, timestamp, type, version, data, error, epoch, entity,
    key.

    ``df`` has the columns of Spark's Kafka source, and maybe ``epoch``, which is null otherwise.
    ``type`` is Kafka's name such as ``PARTITION_RECORD``, ``data`` the record as JSON, as
    ``kafka-dump-log`` prints it; ``entity`` and ``key`` say what it is about
    (:mod:`kwire.spark.entities`). A value that is damaged, or of a type or version that this kwire
    does not know, has null there and the reason in ``error``; with ``mode="FAILFAST"`` it fails the
    query. ``keep`` names further columns of ``df`` to carry along. SCRAM keys and the values of
    secret configs are ``(redacted)`` unless ``secrets`` is true; ``keep=["value"]`` has them in any
    case.

    Raises ValueError for columns that ``df`` lacks or that would be there twice.
    """
    function = partial(
        decode_batches, keep=tuple(keep), fail_fast=_fail_fast(mode), secrets=secrets
    )
    epoch = [name for name in ("epoch",) if name in df.columns]
    return _selected(df, keep, DECODED, epoch).mapInArrow(function, _schema(df, DECODED, keep))


def typed(
    df: DataFrame,
    name: str,
    *,
    keep: Sequence[str] = (),
    mode: Mode = "PERMISSIVE",
    secrets: bool = False,
) -> DataFrame:
    """The records of one type, as typed columns: ``offset``, ``timestamp``, ``version``,
    ``record``, ``error``.

    ``name`` is ``"PartitionRecord"`` or ``"PARTITION_RECORD"``; other records are filtered out
    before Python sees them. ``record`` is a struct with every field of every version of that type,
    by the names of Kafka's JSON form; select ``record.*`` to spread it. A field that the record's
    version lacks is null. ``keep``, ``mode`` and ``secrets`` as in :func:`decode`. Raises
    UnknownApi for a name that is no metadata record.
    """
    message = BY_KEY["metadata", type_key(name)]
    columns = {"version": "int", "record": spark_type(message_type(message)), "error": "string"}
    function = partial(
        typed_batches, name=message, keep=tuple(keep), fail_fast=_fail_fast(mode), secrets=secrets
    )
    return _selected(only(df, name), keep, columns).mapInArrow(function, _schema(df, columns, keep))


def only(df: DataFrame, *names: str) -> DataFrame:
    """Return the rows of ``df`` whose value is a record of one of these types, by its first bytes.

    The test runs in the JVM, so that other records never reach Python. Raises UnknownApi for an
    unknown name.
    """
    return df.filter(_is_one_of(names))


def without(df: DataFrame, *names: str) -> DataFrame:
    """Return the rows of ``df`` except those whose value is a record of one of these types; damaged
    values and nulls stay.

    An idle cluster writes a ``NO_OP_RECORD`` twice a second: filtering these out first saves the
    most work.
    """
    return df.filter(~_is_one_of(names))


def _is_one_of(names: Sequence[str]) -> Column:
    tests = [
        F.substring(F.col("value"), 1, len(p)).eqNullSafe(F.lit(p))
        for p in map(bytearray, map(type_prefix, names))
    ]
    return reduce(Column.__or__, tests, F.lit(False))


def _fail_fast(mode: str) -> bool:
    if mode not in ("PERMISSIVE", "FAILFAST"):
        raise ValueError(f"mode is PERMISSIVE or FAILFAST, not {mode!r}")
    return mode == "FAILFAST"


def _selected(
    df: DataFrame, keep: Sequence[str], made: dict[str, str], also: Sequence[str] = ()
) -> DataFrame:
    """Return ``df`` with only the columns that the worker needs: Spark then leaves the others out
    of the scan's rows.
    """
    for name in (*PASSED, "value", *keep):
        if name not in df.columns:
            raise ValueError(f"the DataFrame has no column {name!r}, only {', '.join(df.columns)}")
    for name in keep:
        if name in PASSED or name in made or keep.count(name) > 1:
            raise ValueError(f"column {name!r} would be there twice: rename it before decoding")
    return df.select(*PASSED, "value", *also, *(name for name in keep if name != "value"))


def _schema(df: DataFrame, made: dict[str, str], keep: Sequence[str]) -> str:
    given = {field.name: field.dataType.simpleString() for field in df.schema.fields}
    columns = {**{n: given[n] for n in PASSED}, **made, **{n: given[n] for n in keep}}
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
