"""Damaged, swapped and hostile directories are refused or explained by each command, without a
traceback, and never changed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest
from click.testing import CliRunner

from gateway.base.sizes import MIB
from gateway.cli import main
from gateway.rescue.read_copy import read_copy
from kwire.metadata_log.open_file import OpenFile
from tests.gateway.rescue.hostile import HOSTILE, whole_directory

#: Directories of each class.
_SEEDS: Final = 5

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc, /dev and sparse files")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_directory(tmp_path_factory.mktemp("whole") / "node")


def fingerprint(root: Path) -> dict[str, tuple[object, ...]]:
    """Kind, size, time, target and the first bytes' hash of everything below ``root``."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        mode = status.st_mode
        target = os.readlink(path) if stat.S_ISLNK(mode) else ""
        digest = ""
        if stat.S_ISREG(mode):
            with path.open("rb") as file:
                digest = hashlib.sha256(file.read(MIB)).hexdigest()
        found[str(path)] = (mode, status.st_size, status.st_mtime_ns, target, digest)
    return found


def run(*arguments: object) -> str:
    """Return the output of a command, which ends with a status of its own and no traceback."""
    result = CliRunner().invoke(main, ["rescue", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    assert result.exit_code in (0, 1, 2), result.output
    assert result.output.strip() and "Traceback" not in result.output
    assert "\x1b" not in result.output, "a terminal would interpret it"
    return result.output


def test_whole_directory_is_whole(whole: Path) -> None:
    copy = read_copy(whole)
    assert copy.is_whole and copy.notes == [] and copy.snapshot is not None
    assert len(copy.segments) == 3 and copy.newest_voters is not None


def test_there_are_two_hundred_directories() -> None:
    assert len(HOSTILE) * _SEEDS >= 200


def test_file_whose_bytes_cannot_be_read_is_named(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: OpenFile, position: int, length: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), file.path)

    monkeypatch.setattr(OpenFile, "read", fail)
    text = run("inspect", whole, "-o", "text")
    assert "Input/output error" in text and "quorum-state" in text and ".log" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_directory_is_refused_or_explained_and_never_changed(
    name: str, whole: Path, tmp_path: Path
) -> None:
    change, told = HOSTILE[name]
    for seed in range(_SEEDS):
        inputs, outputs = tmp_path / f"in-{seed}", tmp_path / f"out-{seed}"
        outputs.mkdir()
        good = Path(shutil.copytree(whole, inputs / "good"))
        bad = Path(shutil.copytree(whole, inputs / "bad"))
        bad = change(bad, Random(seed)) or bad
        before = fingerprint(inputs)
        text = run("inspect", bad, good, "-o", "text") + run("inspect", bad, "-o", "text")
        common = ("--voter", "9@new:9093", "--accept-loss", "--yes", "--no-ask", "-o", "text")
        for number, given in enumerate(
            (
                ("--from", bad),
                ("--from", bad, "--snapshot"),
                ("--from", bad, "--copy", good),
                ("--from", good, "--copy", bad),
            )
        ):
            target = outputs / str(number)
            said = run("write", *given, "--to", target, *common)
            assert target.exists() == said.startswith("written:"), (seed, said)
            assert not target.exists() or read_copy(target).is_whole, (seed, said)
            text += said
        assert re.search(told, text), (seed, text)
        assert fingerprint(inputs) == before, seed
