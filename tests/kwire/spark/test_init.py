"""Importing ``kwire.spark`` imports little: Spark starts several Python processes to plan a query,
and each of them pays for it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

import kwire.spark

#: Imports the modules that are its arguments, and prints those that are loaded then.
_LOADED = (
    "import importlib, sys; [*map(importlib.import_module, sys.argv[1:])]; print(*sys.modules)"
)


def loaded(*modules: str) -> set[str]:
    command = [sys.executable, "-c", _LOADED, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", kwire.spark.__all__)
def test_public_name_is_imported_on_first_use(name: str) -> None:
    scope: dict[str, object] = {}
    exec(f"from kwire.spark import {name}", scope)
    assert scope[name] is getattr(kwire.spark, name) is not None


def test_public_names_are_listed() -> None:
    assert dir(kwire.spark) == sorted(kwire.spark.__all__)
    assert kwire.spark._MODULES.keys() == set(kwire.spark.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'kwire.spark' has no attribute 'encode'"):
        _ = kwire.spark.encode


def test_package_loads_none_of_its_functions() -> None:
    mine = {name for name in loaded("kwire.spark") if name.startswith("kwire.spark.")}
    assert mine == {"kwire.spark.release"}


@pytest.mark.parametrize(
    "module",
    ["source.data_source", "source.topic", "table.build"],
)
def test_sources_of_spark_are_imported_without_pandas(module: str) -> None:
    assert "pandas" not in loaded(f"kwire.spark.{module}")
