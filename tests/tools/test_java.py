"""Where Java comes from, and what is told when there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools import java


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("home/bin", "path"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "java").write_text("#!/bin/sh\n")
        (tmp_path / place / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.java() == str(tmp_path / "home/bin/java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java.java() == str(tmp_path / "path/java")


def test_missing_java_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(java.JavaError, match="install a JRE of 17 or newer"):
        java.java()


def test_classes_that_were_loaded_before_are_not_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "java"
    program.touch()
    monkeypatch.setattr(java, "java", lambda: str(program))
    monkeypatch.setattr(
        java,
        "resolve",
        lambda coordinates, transitive: [Path(f"/jars/{coordinates[0].rpartition(':')[2]}.jar")],
    )
    monkeypatch.setenv("KWIRE_CACHE", str(tmp_path))
    archive = java.class_archive("4.3.1")
    assert not any("SharedArchiveFile" in option for option in java.command(java.SERVER))
    archive.parent.mkdir()
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in java.command(java.SERVER, version="4.3.1")
    assert not any(
        "SharedArchiveFile" in option for option in java.command(java.SERVER, version="4.1.2")
    ), "of another release"
    os.utime(program, (1, 1))
    assert java.class_archive("4.3.1") != archive, "of another Java"


def test_release_without_tools_uses_those_of_the_release_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(java, "java", lambda: sys.executable)

    def resolve(coordinates: list[str], transitive: bool) -> list[Path]:
        asked.append(coordinates)
        return []

    monkeypatch.setattr(java, "resolve", resolve)
    java.command(java.SERVER, version="4.4.0")
    java.command(java.TOPICS, version="4.4.0")
    java.command(java.TOPICS, version="4.1.2")
    assert [[one.rpartition(":")[2] for one in coordinates[:2]] for coordinates in asked] == [
        ["4.4.0", "4.3.1"],
        ["4.3.1", "4.3.1"],
        ["4.1.2", "4.1.2"],
    ]
    assert [coordinates[1].split(":")[1] for coordinates in asked] == [
        "kafka-tools-api",
        "kafka-tools",
        "kafka-tools",
    ]
