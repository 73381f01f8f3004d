"""Spark's home holds the installed package, and its archive is used once it is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import spark_home


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package named pyspark with the files that a home links to, and a Java."""
    package = tmp_path / "packages" / "pyspark"
    for name in ("bin/spark-submit", "jars/spark.jar", "python/lib/py4j-1-src.zip"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    (package / "__init__.py").write_text("found = 'installed'\n")
    (tmp_path / "java").touch()
    monkeypatch.setattr(spark_home, "java", lambda: str(tmp_path / "java"))
    monkeypatch.setenv("KWIRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    return package


def test_home_has_the_installed_package_with_its_byte_code(package: Path) -> None:
    home = spark_home.home()
    assert (home / "bin" / "spark-submit").samefile(package / "bin" / "spark-submit")
    assert os.listdir(home / "jars") == ["spark.jar"]
    lib = home / "python" / "lib"
    assert sorted(os.listdir(lib)) == ["py4j-1-src.zip", "pyspark.zip"]
    worker = subprocess.run(
        [sys.executable, "-c", "import pyspark; print(pyspark.found, pyspark.__cached__)"],
        env={**os.environ, "PYTHONPATH": str(lib / "pyspark.zip")},
        capture_output=True,
        text=True,
        check=True,
    )
    found, byte_code = worker.stdout.split()
    assert found == "installed"
    assert Path(byte_code).parent.parent == lib / "pyspark.zip" / "pyspark"


def test_home_is_another_one_for_other_jars(package: Path) -> None:
    home = spark_home.home()
    assert spark_home.home() == home
    (package / "jars" / "more.jar").touch()
    assert spark_home.home() != home


def test_driver_uses_the_archive_of_classes_once_there_is_one(package: Path) -> None:
    assert "SharedArchiveFile" not in spark_home.driver_options()
    archive = spark_home.home() / "classes.jsa"
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in spark_home.driver_options()
