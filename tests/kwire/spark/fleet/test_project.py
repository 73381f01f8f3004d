"""The program that ``kwire spark init`` writes, and the command that runs without one."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from click.testing import CliRunner

from gateway.cli import main
from kwire.spark.fleet import FleetError, job


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["spark", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_program_has_the_clusters_and_compiles(tmp_path: Path) -> None:
    directory = tmp_path / 'it\'s "mine"'
    status, said = run(
        "init", str(directory), "--source", "eu=h1:9092,h2:9092", "--source", "u=h:1"
    )
    assert status == 0 and str(directory / "fleet.py") in said
    scope: dict[str, object] = {"__name__": "program"}
    exec(compile((directory / "fleet.py").read_text(), "fleet.py", "exec"), scope)
    assert scope["CLUSTERS"] == {"eu": "h1:9092,h2:9092", "u": "h:1"}
    assert scope["TABLES"] == str(directory / "tables")


def test_program_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text("mine")
    status, said = run("init", str(tmp_path))
    assert status == 1 and "fleet.py is there already" in said
    assert (tmp_path / "fleet.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("h1:9092", "'h1:9092' is not NAME=HOST:PORT, such as eu=h1:9092"),
        ("eu=h1", "is not HOST:PORT"),
        ("eu=", "is not HOST:PORT"),
    ],
)
def test_cluster_that_is_not_named_is_refused(source: str, sentence: str, tmp_path: Path) -> None:
    for command in (
        ["init", str(tmp_path), "--source", source],
        ["fleet", source, "--tables", "t"],
    ):
        status, said = run(*command)
        assert status == 2 and sentence in said


def test_server_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    before = set(sys.modules)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        status, said = run("fleet", f"eu={address}", "--tables", str(tmp_path / "t"))
    assert status == 1 and f"eu: cannot connect to {address}: " in said
    assert "Traceback" not in said and not (tmp_path / "t").exists()
    assert "pyspark.sql.session" not in set(sys.modules) - before


def test_settings_are_name_and_value(tmp_path: Path) -> None:
    status, said = run("fleet", "eu=h:1", "--tables", str(tmp_path), "--conf", "spark.x")
    assert status == 2 and "--conf 'spark.x' is not NAME=VALUE" in said


def test_options_of_clusters_are_those_of_sparks_source() -> None:
    secured = {"bootstrap.servers": "h:2", "kafka.security.protocol": "SSL"}
    assert job._options({"a": "h:1", "b": secured}) == {
        "a": {"kafka.bootstrap.servers": "h:1"},
        "b": {"kafka.bootstrap.servers": "h:2", "kafka.security.protocol": "SSL"},
    }


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({}, "there is no cluster"),
        ({"a": {"bootstrap.servers": "h:1", "kafka.ssl.keystore.type": "JKS"}}, "a: ssl.keystore"),
        ({"a": {"bootstrap.servers": "h:1", "starting": "x"}}, "a: kwire has no option"),
    ],
)
def test_options_that_cannot_be_used_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises(FleetError, match=sentence):
        job._options(wrong)


def test_unknown_view_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(FleetError, match=r"there is no view 'topic'; there are .*topics"):
        job._views(["topic"])
