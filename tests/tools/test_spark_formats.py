"""The command reports what runs, and fails for news; Maven and Spark are not asked."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kwire.jars.maven import MavenError
from kwire.jars.table_formats import FORMATS
from tools import spark_formats


def test_news_is_what_the_package_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    known = set(FORMATS.items())
    monkeypatch.setattr(
        spark_formats, "tried", lambda release, format: ((release, format) in known, "said")
    )
    done = CliRunner().invoke(spark_formats.main)
    assert done.exit_code == 0 and "PySpark 4.2, delta: said" in done.output
    known.add(("4.0", "delta"))
    assert CliRunner().invoke(spark_formats.main).exit_code == 0, "it has a format"
    known.add(("4.3", "iceberg"))
    known.remove(("4.2", "delta"))
    done = CliRunner().invoke(spark_formats.main)
    assert done.exit_code == 1
    assert "this is news: delta with PySpark 4.2, iceberg with PySpark 4.3" in done.output


def test_format_that_is_not_built_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(coordinates: list[str]) -> list[str]:
        assert coordinates == ["io.delta:delta-spark_4.3_2.13:LATEST"]
        raise MavenError("not there")

    monkeypatch.setattr(spark_formats, "resolve", resolve)
    assert spark_formats.tried("4.3", "delta") == (False, "Maven has none that is built for it")
