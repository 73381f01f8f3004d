"""An environment with another PySpark is made once, and again where making it was cut off."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import pyspark_release


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of pip, none of which is run; venv is."""
    commands: list[list[str]] = []
    run = pyspark_release._run

    def recorded(command: list[str]) -> None:
        if command[2] == "pip":
            commands.append(command)
        else:
            run(command)

    monkeypatch.setattr(pyspark_release, "_run", recorded)
    monkeypatch.setenv("KWIRE_CACHE", str(tmp_path))
    return commands


def test_environment_gets_pyspark_alone_and_once(installed: list[list[str]]) -> None:
    python = pyspark_release.environment("4.2")
    assert pyspark_release.environment("4.2") == python
    [pip] = installed
    assert pip[-1] == "pyspark == 4.2.*" and pip[4] == str(python)
    found = subprocess.run(
        [python, "-c", "import pytest, sys; print(pytest.__file__); print(sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )
    other, prefix = found.stdout.splitlines()
    assert (other, prefix) == (pytest.__file__, str(python.parent.parent)) and prefix != sys.prefix


def test_environment_that_was_cut_off_is_made_again(
    installed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:

        def fail(command: list[str]) -> None:
            raise pyspark_release.InstallError("no such release")

        context.setattr(pyspark_release, "_run", fail)
        with pytest.raises(pyspark_release.InstallError, match="no such release"):
            pyspark_release.environment("4.2")
    assert pyspark_release.environment("4.2").exists() and len(installed) == 1


def test_output_of_a_failed_command_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(pyspark_release.InstallError, match=r"ended with 3:\nno network"):
        pyspark_release._run(
            [sys.executable, "-c", "import sys; print('no network', file=sys.stderr); sys.exit(3)"]
        )
