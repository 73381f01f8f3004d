"""Runs Kafka Connect in one process, with sinks that write to files: ``with standalone(...)``.

The worker has the class path of a Kafka broker, which holds Connect's runtime, and the jar of the
file sink. It finds plugins by Java's ServiceLoader, because reading every jar takes seconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kwire.jars.maven import MavenError, resolve
from tools import java
from tools.process import Process

WORKER: Final = "org.apache.kafka.connect.cli.ConnectStandalone"
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
    bootstrap: str, sinks: Mapping[str, Mapping[str, str]], scratch: Path
) -> Iterator[Process]:
    """Run a worker with ``sinks``, settings by name, until the end of the block.

    The worker reads from ``bootstrap`` unless a sink says otherwise, as text unless it names a
    converter. Files of the worker go to ``scratch``. Raises JavaError.
    """
    worker = {
        "bootstrap.servers": bootstrap,
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
        "offset.storage.file.filename": str(scratch / "offsets"),
        "listeners": "http://127.0.0.1:0",
        "plugin.discovery": "service_load",
    }
    files = [_written(scratch / "worker.properties", worker)]
    for name, settings in sinks.items():
        sink = {"name": name, "connector.class": FILE_SINK, "tasks.max": "1", **settings}
        files.append(_written(scratch / f"sink-{name}.properties", sink))
    command = java.command(WORKER, files, options=_OPTIONS, more_jars=file_jars())
    process = Process("Kafka Connect", command, scratch / "output")
    try:
        yield process
    finally:
        process.stop()


def _written(path: Path, settings: Mapping[str, str]) -> str:
    path.write_text(properties(settings), encoding="utf-8")
    return str(path)
