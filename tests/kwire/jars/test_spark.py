"""The jars that are requested from a fake Maven, their order, and the messages about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.spark_jars import jars
from kwire.jars import spark, table_formats
from kwire.jars.maven import MavenError


class Maven:
    """Has the given Spark versions, and remembers what it was asked for."""

    def __init__(self, *versions: str) -> None:
        self.versions = versions
        self.asked: list[Sequence[str]] = []

    def resolve(self, coordinates: Sequence[str], keep_missing_s: float = 0) -> list[Path]:
        self.asked.append(coordinates)
        for one in coordinates:
            group, artifact, version = one.split(":")
            if (
                group == "org.apache.spark"
                and f"{artifact.partition('-kafka')[0]}:{version}" not in self.versions
            ):
                raise MavenError(f"Maven did not find {one}")
        return [Path(f"/jars/{one.split(':')[1]}.jar") for one in coordinates]


def _maven(monkeypatch: pytest.MonkeyPatch, *versions: str) -> Maven:
    maven = Maven(*versions)
    monkeypatch.setattr(spark, "resolve", maven.resolve)
    return maven


WORKING = ("spark-sql:4.2.0", "spark-token-provider:4.0.0")


def test_the_connector_of_the_same_version_first(monkeypatch: pytest.MonkeyPatch) -> None:
    maven = _maven(monkeypatch, "spark-sql:4.3.0", "spark-token-provider:4.3.0", *WORKING)
    found = spark.spark_jars("4.3.0")
    assert len(maven.asked) == 1
    assert found.which.startswith("the connector of PySpark 4.3.0 itself")
    assert len(found.paths) == 4


def test_fallback_set_is_used_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    _maven(monkeypatch, "spark-sql:4.3.0", *WORKING)
    run = CliRunner().invoke(jars, ["--pyspark", "4.3.0"])
    assert run.exit_code == 0
    assert "connector 4.2.0, token provider 4.0.0" in run.stderr
    assert run.stdout.strip().split(",")[0].endswith("spark-sql-kafka-0-10_2.13.jar")


def test_no_guess_for_a_release_that_was_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    maven = _maven(monkeypatch, *WORKING)
    with pytest.raises(MavenError, match=r"5\.0\.0"):
        spark.spark_jars("5.0.0")
    assert len(maven.asked) == 1


def test_missing_connector_and_missing_fallback_are_both_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _maven(monkeypatch)
    run = CliRunner().invoke(jars, ["--pyspark", "4.3.0"])
    assert run.exit_code == 1
    assert ":4.3.0" in run.output and ":4.2.0" in run.output


def test_format_for_the_release_that_it_is_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    maven = _maven(monkeypatch)
    monkeypatch.setattr(table_formats, "resolve", maven.resolve)
    run = CliRunner().invoke(jars, ["--format", "delta", "--pyspark", "4.2.1"])
    assert run.exit_code == 0 and "delta-spark_2.13.jar" in run.stdout
    run = CliRunner().invoke(jars, ["--format", "iceberg", "--pyspark", "4.1.4"])
    assert run.exit_code == 0 and "iceberg-spark-runtime-4.1_2.13.jar" in run.stdout
    run = CliRunner().invoke(jars, ["--format", "delta", "--pyspark", "4.3.0"])
    assert (
        run.exit_code == 1
        and "Delta 4.4.0 is built for PySpark 4.2, and this is 4.3.0" in run.output
    )
    run = CliRunner().invoke(jars, ["--format", "iceberg", "--pyspark", "4.2.1"])
    assert run.exit_code == 1 and "iceberg was not run with PySpark 4.2.1" in run.output
    assert len(maven.asked) == 2


def test_release_without_a_format_names_those_that_have_one() -> None:
    assert table_formats.format_of("4.1.9") == table_formats.format_of("4.0.5") == "iceberg"
    with pytest.raises(
        MavenError, match=r"4\.3\.0: install PySpark 4.1 for iceberg or 4.2 for delta"
    ):
        table_formats.format_of("4.3.0")


def test_format_of_the_tables_in_a_directory_is_that_of_their_clusters(tmp_path: Path) -> None:
    assert table_formats.format_at(str(tmp_path)) is None
    assert table_formats.format_at("localhost:9092") is None
    for format, name in (("delta", "_delta_log"), ("iceberg", "metadata")):
        (tmp_path / format / "clusters" / name).mkdir(parents=True)
        assert table_formats.format_at(str(tmp_path / format)) == format
