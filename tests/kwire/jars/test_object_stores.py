"""The jars of S3's client are those of PySpark's Hadoop; an untried release is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.spark_jars import jars
from kwire.jars import object_stores


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Coordinates that a Maven is asked for. It has everything, and what PySpark has, too."""
    found: list[str] = []

    def resolve(coordinates: Sequence[str], *, transitive: bool = False) -> list[Path]:
        found.extend(coordinates)
        names = [f"{one.split(':')[1]}.jar" for one in coordinates]
        return [Path("/jars") / one for one in (*names, *(["slf4j-api-1.7.jar"] * transitive))]

    monkeypatch.setattr(object_stores, "resolve", resolve)
    return found


@pytest.mark.parametrize(
    ("pyspark", "hadoop"), [("4.0.5", "3.4.1"), ("4.1.2", "3.4.2"), ("4.2.0", "3.5.0")]
)
def test_client_of_s3_is_the_one_of_pysparks_hadoop(
    asked: list[str], pyspark: str, hadoop: str
) -> None:
    run = CliRunner().invoke(jars, ["--pyspark", pyspark, "--s3"])
    assert run.exit_code == 0 and f"Hadoop {hadoop}'s client of S3" in run.stderr
    assert asked[0] == f"org.apache.hadoop:hadoop-aws:{hadoop}"
    assert "hadoop-aws.jar" in run.stdout and "slf4j" not in run.stdout


def test_release_without_a_tried_client_of_s3_is_told(asked: list[str]) -> None:
    run = CliRunner().invoke(jars, ["--pyspark", "4.3.0", "--s3"])
    assert run.exit_code == 1 and "spark.jars.packages" in run.stderr and not asked
