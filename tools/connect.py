"""Runs Kafka Connect in one process, with sources and sinks of files: ``with standalone(...)``, or
as the one worker of a cluster: ``distributed(...)``.

The worker has the class path of a Kafka broker, which holds Connect's runtime, and the jar of the
file sink. It finds plugins by Java's ServiceLoader, because reading every jar takes seconds.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kwire.jars.maven import MavenError, resolve
from tools import java
from tools.process import PATIENCE_S, Process

STANDALONE: Final = "org.apache.kafka.connect.cli.ConnectStandalone"
DISTRIBUTED: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
FILE_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
#: A worker of a few records on few cores.
_OPTIONS: Final = (*java.QUICK_START, "-Xmx256m")


def file_jars() -> list[Path]:
    """Return the jars of the file connectors. Raises JavaError."""
    try:
        return resolve([f"org.apache.kafka:connect-file:{java.KAFKA_VERSION}"])
    except MavenError as error:
        raise java.JavaError(str(error)) from error


def properties(settings: Mapping[str, str]) -> str:
    """Return the lines of a properties file."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())


@contextlib.contextmanager
def standalone(
    bootstrap: str,
    connectors: Mapping[str, Mapping[str, str]],
    scratch: Path,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """Run a worker with ``connectors``, settings by name, until the end of the block. One without
    a class is a sink to a file.

    The worker reads from ``bootstrap`` unless a connector says otherwise, as text unless it names a
    converter. ``settings`` are more of the worker's. Its files, with the offsets of its sources, go
    to ``scratch``. Raises JavaError.
    """
    worker = _worker(bootstrap) | {
        "offset.storage.file.filename": str(scratch / "offsets"),
        "listeners": "http://127.0.0.1:0",
        **(settings or {}),
    }
    files = [_written(scratch / "worker.properties", worker)]
    for name, given in connectors.items():
        one = {"name": name, "connector.class": FILE_SINK, "tasks.max": "1", **given}
        files.append(_written(scratch / f"connector-{name}.properties", one))
    process = _started(STANDALONE, files, scratch)
    try:
        yield process
    finally:
        process.stop()


def distributed(bootstrap: str, port: int, scratch: Path) -> Process:
    """Start a worker of a cluster of Connect, whose topics have one replica and whose sources are
    transactional, and return it. Its REST interface is at ``port``. Raises JavaError.
    """
    topics = {
        f"{kind}.storage.{name}": value
        for kind in ("config", "offset", "status")
        for name, value in {"topic": f"connect-{kind}", "replication.factor": "1"}.items()
    }
    worker = _worker(bootstrap) | {
        **topics,
        "group.id": "connect",
        "listeners": f"http://127.0.0.1:{port}",
        "exactly.once.source.support": "enabled",
    }
    return _started(DISTRIBUTED, [_written(scratch / "worker.properties", worker)], scratch)


def configure(port: int, name: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Have the worker at ``port`` run a connector; return what it says of it. Raises OSError."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/connectors/{name}/config",
        json.dumps(settings).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return dict(json.load(response))


def _worker(bootstrap: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
        "plugin.discovery": "service_load",
    }


def _started(main_class: str, files: Sequence[str], scratch: Path) -> Process:
    command = java.command(main_class, files, options=_OPTIONS, more_jars=file_jars())
    return Process("Kafka Connect", command, scratch / "output")


def _written(path: Path, settings: Mapping[str, str]) -> str:
    path.write_text(properties(settings), encoding="utf-8")
    return str(path)
