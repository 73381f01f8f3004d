"""Makes an environment with another release of PySpark in kwire's cache directory: ``python -m
tools.pyspark_release 4.2`` prints its Python.

It holds that PySpark alone. A path file adds the packages of the environment that made it, so that
little is installed and tests run with the same releases of all else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import click

from kwire.jars.maven import cache_dir, locked

_TIMEOUT_S = 600
_UNCOMPRESSED_WHEELS = Path(__file__).with_name("uncompressed_wheels.cfg")


class InstallError(Exception):
    """The environment cannot be made; the text holds the output of venv or pip."""


@click.command(epilog="Example: python -m tools.pyspark_release 4.2")
@click.argument("release")
def main(release: str) -> None:
    """Make the environment with PySpark RELEASE, unless it is there, and print its Python."""
    try:
        click.echo(environment(release))
    except InstallError as error:
        raise click.ClickException(str(error)) from error


def environment(release: str) -> Path:
    """The Python of an environment with the newest PySpark of ``release`` (``4.2``); made if there
    is none yet. Raises InstallError.
    """
    others = list(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")))
    key = hashlib.sha256(repr((sys.executable, sys.version, others)).encode()).hexdigest()[:16]
    root = cache_dir() / "environments"
    directory, whole = root / f"pyspark-{release}-{key}", root / f"pyspark-{release}-{key}.whole"
    python = directory / "bin" / "python"
    if whole.exists():  # without the lock, which another release may hold for minutes
        return python
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "lock"):
        if not whole.exists():
            shutil.rmtree(directory, ignore_errors=True)
            _run([sys.executable, "-m", "venv", "--without-pip", str(directory)])
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
            # Python compiles the modules that are imported, which are few.
            _run([*pip, "--no-compile", f"pyspark == {release}.*"])
            [packages] = directory.glob("lib/python*/site-packages")
            (packages / "others.pth").write_text("".join(f"{path}\n" for path in others))
            whole.touch()
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, "DIST_EXTRA_CONFIG": str(_UNCOMPRESSED_WHEELS)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise InstallError(
            f"{' '.join(command)} ended with {done.returncode}:\n"
            f"{(done.stderr or done.stdout).strip()[-2000:]}"
        )


if __name__ == "__main__":
    main()
