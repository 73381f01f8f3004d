"""The directories that tables can be in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.table.places import directory_of


@pytest.mark.parametrize(
    "path",
    ["s3a://bucket/x", "s3://bucket/x", "dbfs:/x", "hdfs://nn/x", "abfss://a@b/x", "gs://b"],
)
def test_path_that_is_not_a_files_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"{path}: .* kept by kwire spark fleet"):
        directory_of(path)
    assert not any(tmp_path.iterdir())


def test_file_uri_and_relative_path_are_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert directory_of("a/b/") == f"{tmp_path}/a/b"
    for uri in ("file:/data/x", "file:///data/x", "FILE:///data/x/"):
        assert directory_of(uri) == "/data/x"


@pytest.mark.parametrize("name", ["sources.json", "cluster_id=eu"])
def test_tables_of_a_list_of_clusters_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match="does not read them; build them anew with kwire spark"):
        directory_of(str(tmp_path))
