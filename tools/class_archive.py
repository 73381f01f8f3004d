"""Makes Kafka's programs start faster: ``python -m tools.class_archive`` archives the classes that
they load.

Class data sharing (JEP 310): a server and a few tools record their classes, and from then on Java
maps them from one file. Without that file, or with another Java, programs start as before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import java
from tools.kafka import FAST_START, kafka
from tools.process import ProcessError

_TOOLS = (
    (java.TOPICS, "--bootstrap-server {} --create --topic a --partitions 1"),
    (java.METADATA_QUORUM, "--bootstrap-server {} describe --status"),
    ("kafka.admin.ConfigCommand", "--bootstrap-server {} --describe --entity-type topics"),
)
#: Long, because the prefetch of the tests runs it on a processor that other work leaves idle.
_TIMEOUT_S = 600


def make(version: str = java.KAFKA_VERSION) -> Path:
    """Return the archive of that release; make it if there is none. Raises JavaError,
    ProcessError.
    """
    target = java.class_archive(version)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            _dump(version, _loaded(version, Path(scratch)), Path(scratch) / "archive")
            (Path(scratch) / "archive").replace(target)
    return target


def _loaded(version: str, scratch: Path) -> Path:
    """Return a file with the name of every class that a server and the tools load."""
    lists = [scratch / f"{number}.classes" for number in range(len(_TOOLS) + 1)]
    with kafka(
        version=version, options=(*FAST_START, f"-XX:DumpLoadedClassList={lists[0]}")
    ) as cluster:
        for classes, (main, arguments) in zip(lists[1:], _TOOLS, strict=True):
            options = [*java.QUICK_START, f"-XX:DumpLoadedClassList={classes}"]
            _run(
                java.command(
                    main,
                    arguments.format(cluster.bootstrap).split(),
                    version=version,
                    options=options,
                )
            )
    merged = scratch / "classes"
    lines = dict.fromkeys(line for classes in lists for line in classes.read_text().splitlines())
    merged.write_text("\n".join(lines) + "\n")
    return merged


def _dump(version: str, classes: Path, archive: Path) -> None:
    jars = os.pathsep.join(map(str, java.class_path(version)))
    files = (f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}")
    _run([java.java(), "-Xshare:dump", *files, "-cp", jars])


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise java.JavaError(
            f"{' '.join(command)[:200]} ... ended with"
            f" {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


if __name__ == "__main__":
    try:
        print(make())
    except (java.JavaError, ProcessError) as error:
        sys.exit(f"Kafka's programs start as slowly as ever: {error}")
