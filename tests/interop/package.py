"""Builds the package, and installs it into environments away from the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
_NOT_SOURCE: Final = shutil.ignore_patterns(
    ".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)


def run(command: Sequence[str | Path], where: Path, **variables: str) -> str:
    """Standard output of a program that ends with 0, started in ``where`` with an environment of
    its own, to which ``variables`` belong.
    """
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(where), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        list(map(str, command)),
        cwd=where,
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def environment(path: Path, *packages: str | Path) -> Path:
    """The programs of a new environment that holds ``packages``."""
    venv.create(path)
    install(path, *packages)
    return path / "bin"


def install(path: Path, *packages: str | Path, **variables: str) -> None:
    """Install ``packages`` into an environment, by pip with ``variables``."""
    pip = [sys.executable, "-m", "pip", "--python", str(path / "bin/python"), "install", "-q"]
    # Compiling every module of the packages would take longer than the test, which runs few.
    run([*pip, "--disable-pip-version-check", "--no-compile", *packages], path, **variables)


def build(scratch: Path) -> Path:
    """A directory with the source distribution of the checkout, and the wheel that was built from
    it.
    """
    source, dist = scratch / "source", scratch / "dist"
    shutil.copytree(ROOT, source, ignore=_NOT_SOURCE)
    declared = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    # One environment with what the package says that its build needs, where ``build`` makes two.
    needs = ("build>=1.2,<2", "twine>=6,<7", *declared["build-system"]["requires"])
    tools = environment(scratch / "tools", *needs)
    run([tools / "python", "-m", "build", "--no-isolation", "--outdir", dist, source], scratch)
    run([tools / "python", "-m", "twine", "check", "--strict", *dist.iterdir()], scratch)
    return dist
