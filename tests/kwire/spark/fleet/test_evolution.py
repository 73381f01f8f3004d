"""The table tells which columns and members it lacks, at every depth, and a statement adds them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from kwire.spark.fleet.evolution import Lacking, lacking
from kwire.spark.fleet.sql import add_columns

INT, TEXT = IntegerType(), StringType()


def struct(**fields: DataType) -> StructType:
    found = StructType()
    for name, one in fields.items():
        found = found.add(name, one)
    return found


def test_table_that_has_everything_lacks_nothing() -> None:
    assert list(lacking(struct(B=INT, a=TEXT, old=TEXT), struct(a=TEXT, b=INT))) == []


def test_columns_are_lacking_with_the_one_before_them() -> None:
    wanted = struct(first=INT, a=TEXT, b=LongType(), c=struct(x=INT))
    assert list(lacking(struct(a=TEXT), wanted)) == [
        Lacking(("first",), "int", None),
        Lacking(("b",), "bigint", "a"),
        Lacking(("c",), "struct<x:int>", "b"),
    ]


def test_members_are_lacking_inside_structs_arrays_and_values_of_maps() -> None:
    few, more = struct(x=INT), struct(x=INT, y=TEXT)
    have = struct(s=few, a=ArrayType(few), m=MapType(TEXT, few), d=ArrayType(struct(s=few)))
    wanted = struct(s=more, a=ArrayType(more), m=MapType(TEXT, more), d=ArrayType(struct(s=more)))
    found = list(lacking(have, wanted))
    assert [one.path for one in found] == [
        ("s", "y"),
        ("a", "element", "y"),
        ("m", "value", "y"),
        ("d", "element", "s", "y"),
    ]
    assert {(one.type, one.after) for one in found} == {("string", "x")}


def test_statement_adds_each_where_it_belongs() -> None:
    text = add_columns("t", [Lacking(("a", "b"), "int", None), Lacking(("c",), "string", "a")])
    assert text == "ALTER TABLE t ADD COLUMNS (`a`.`b` int FIRST, `c` string AFTER `a`)"
