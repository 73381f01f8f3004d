"""The files that a worker of Kafka Connect is started with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kwire.jars.maven import MavenError
from tools import connect, java


def test_worker_gets_its_settings_and_those_of_each_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str], Any]] = []

    def command(main: str, files: list[str], **more: Any) -> list[str]:
        asked.append((main, files, more["more_jars"]))
        return [sys.executable, "-c", "print('worker')"]

    monkeypatch.setattr(java, "command", command)
    monkeypatch.setattr(connect, "resolve", lambda coordinates: [Path("/jars/file.jar")])
    settings = {"topics": "t", "file": "/tmp/t", "value.converter": "Other"}
    with connect.standalone("127.0.0.1:9092", {"one": settings}, tmp_path):
        pass
    ((main, files, jars),) = asked
    assert (main, jars) == (connect.STANDALONE, [Path("/jars/file.jar")])
    worker_file, sink_file = (Path(name).read_text().splitlines() for name in files)
    assert "bootstrap.servers=127.0.0.1:9092" in worker_file
    assert {"name=one", f"connector.class={connect.FILE_SINK}", "topics=t"} <= {*sink_file}
    assert "value.converter=Other" in sink_file


def test_jars_that_cannot_be_had_are_an_error_of_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(coordinates: list[str]) -> list[Path]:
        raise MavenError("out of reach")

    monkeypatch.setattr(connect, "resolve", resolve)
    with pytest.raises(java.JavaError, match="out of reach"):
        connect.file_jars()
