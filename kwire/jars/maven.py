"""Fetches jars from Maven by coordinates, into kwire's own cache directory.

Needs ``mvn`` on the PATH. A small POM names the coordinates; for a flat set every transitive
dependency is excluded by a wildcard, because a missing transitive artifact would otherwise send
Maven to repositories named in foreign POMs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kwire.tools</groupId><artifactId>jars</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId>"
    "<version>{}</version>{}</dependency>"
)
_NO_TRANSITIVE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)

#: One command of Maven takes half of the processor time without the second compiler and the threads
#: of the collector. The user's own options, if there are any, stand instead.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Maven's messages for an artifact that its repositories do not have; not those for repositories
#: out of reach.
_NOT_THERE = ("Could not find artifact", "was not found in")


class MavenError(Exception):
    """Maven is missing or did not find the artifacts; the text holds Maven's output."""


def cache_dir() -> Path:
    """Where jars are kept: ``$KWIRE_CACHE``, else ``$XDG_CACHE_HOME/kwire``, else
    ``~/.cache/kwire``.
    """
    if own := os.environ.get("KWIRE_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kwire"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time into the block; ``path`` is the file that they lock."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def resolve(
    coordinates: Sequence[str],
    *,
    transitive: bool = False,
    timeout_s: float = 600,
    keep_missing_s: float = 0,
) -> list[Path]:
    """The jars of ``group:artifact:version`` coordinates, sorted by name; with their dependencies
    if ``transitive``.

    A set that was resolved before comes from the cache without a request; the result that an
    artifact is missing is kept for ``keep_missing_s`` seconds, because each request takes seconds.
    Raises MavenError.
    """
    key = hashlib.sha256(repr((sorted(coordinates), transitive)).encode()).hexdigest()[:16]
    target = cache_dir() / "jars" / key
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Maven's own directory is not made for several processes that fill it.
        with locked(target.with_name("lock")):
            if not target.is_dir():
                _fetch(coordinates, transitive, target, timeout_s, keep_missing_s)
    return sorted(target.glob("*.jar"))


def _fetch(
    coordinates: Sequence[str],
    transitive: bool,
    target: Path,
    timeout_s: float,
    keep_missing_s: float,
) -> None:
    missing = target.with_name(f"{target.name}.missing")
    if missing.is_file() and time.time() - missing.stat().st_mtime < keep_missing_s:
        raise MavenError(missing.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        try:
            _download(coordinates, transitive, Path(scratch), timeout_s)
        except MavenError as error:
            if any(words in str(error) for words in _NOT_THERE):
                missing.write_text(str(error), encoding="utf-8")
            raise
        (Path(scratch) / "out").rename(target)


def _download(
    coordinates: Sequence[str], transitive: bool, scratch: Path, timeout_s: float
) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise MavenError(
            "mvn is not on the PATH: install Maven and a JDK, or give the jars as files"
        )
    rows = []
    for one in coordinates:
        group, artifact, version = one.split(":")
        exclusions = "" if transitive else _NO_TRANSITIVE
        rows.append(
            _DEPENDENCY.format(escape(group), escape(artifact), escape(version), exclusions)
        )
    (scratch / "pom.xml").write_text(_POM.format(dependencies="".join(rows)))
    run = subprocess.run(
        [mvn, "-q", "-B", "-f", str(scratch / "pom.xml"), "dependency:copy-dependencies",
         f"-DoutputDirectory={scratch / 'out'}", "-DincludeScope=runtime"],
        env={"MAVEN_OPTS": _QUICK_START, **os.environ},
        capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    if run.returncode != 0 or not (scratch / "out").is_dir():
        raise MavenError(
            "Maven did not find"
            f" {', '.join(coordinates)}:\n{run.stdout[-4000:]}{run.stderr[-2000:]}"
        )
