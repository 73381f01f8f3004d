"""Tells directories, URIs and databases apart."""

from __future__ import annotations

import os

import pytest

from gateway.cli.spark_fleet import _absolute
from kwire.spark.fleet.place import Place


@pytest.mark.parametrize(
    "where", ["s3a://bucket/fleet", "hdfs://host:9000/fleet", "dbfs:/fleet", "file:/data/fleet"]
)
def test_uri_stays_as_it_is(where: str) -> None:
    assert Place(where, "delta").is_uri and Place(where, "delta").is_path
    assert _absolute(where) == where


def test_directory_is_no_uri_and_gets_its_whole_path() -> None:
    assert not Place("data/fleet", "delta").is_uri
    assert _absolute("fleet") == os.path.abspath("fleet")


def test_database_is_neither() -> None:
    place = Place("lake.fleet", "iceberg")
    assert not place.is_uri and not place.is_path
    assert _absolute("lake.fleet") == "lake.fleet"


@pytest.mark.parametrize(
    ("where", "begins"),
    [
        ("lake.fleet", "CALL `lake`.system.rewrite_data_files(table => '`lake`.`fleet`.`t`',"),
        ("fleet", "CALL system.rewrite_data_files(table => '`fleet`.`t`',"),
    ],
)
def test_compaction_of_iceberg_is_a_procedure_of_the_catalog(where: str, begins: str) -> None:
    text = Place(where, "iceberg").compact("t", ["A", "it's"])
    assert text.startswith(begins)
    assert "where => 'cluster_id IN (\\'A\\', \\'it\\\\\\'s\\')'" in text


def test_compaction_at_a_path_names_the_catalog_of_the_path() -> None:
    place = Place("/data/fleet", "iceberg")
    catalog = place.table("t").partition(".")[0]
    assert f"CALL `{catalog}`.system.rewrite_data_files(table => '{place.table('t')}'" in (
        place.compact("t", ["A"])
    )
