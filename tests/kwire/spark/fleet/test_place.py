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
