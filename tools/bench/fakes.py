"""Runs two other fake clusters as processes: kfake of franz-go, and librdkafka's mock cluster.

kfake is built with Go in a temporary directory when it is needed. The mock cluster lives in a
producer of confluent-kafka, in a process of its own, so that its processor time can be read.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: Versions that were built together; kfake has no releases of its own.
_KFAKE = "github.com/twmb/franz-go/pkg/kfake@v0.0.0-20260918054303-01f206a7e32c"
_FRANZ_GO = "github.com/twmb/franz-go@v1.22.2"
_BUILD_S = 600
_MOCK = """
import logging, sys
from confluent_kafka import Producer
logging.disable()
producer = Producer({"test.mock.num.brokers": 1, "log_level": 2}, logger=logging.getLogger())
(broker,) = producer.list_topics(sys.argv[1], timeout=10).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


class NoPeer(Exception):
    """The fake cluster cannot run here; the text says why."""


@contextlib.contextmanager
def kfake(topic: str) -> Iterator[tuple[str, int]]:
    """Yield (address, process id) of a kfake cluster with ``topic``. Raises NoPeer."""
    if shutil.which("go") is None:
        raise NoPeer("kfake: Go is not installed")
    with tempfile.TemporaryDirectory(prefix="kwire-kfake-") as scratch:
        folder = Path(scratch)
        shutil.copy(Path(__file__).parent / "kfake" / "main.go", folder)
        for command in (
            ("go", "mod", "init", "kfake"),
            ("go", "get", _FRANZ_GO, _KFAKE),
            ("go", "build", "-o", "kfake", "."),
        ):
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=_BUILD_S
            )
            if done.returncode != 0:
                raise NoPeer(f"kfake: {' '.join(command)}: {done.stderr.strip()[-200:]}")
        with _running([str(folder / "kfake"), topic]) as running:
            yield running


@contextlib.contextmanager
def librdkafka_mock(topic: str) -> Iterator[tuple[str, int]]:
    """Yield (address, process id) of a mock cluster of librdkafka with ``topic``. Raises NoPeer."""
    with _running([sys.executable, "-c", _MOCK, topic]) as running:
        yield running


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[tuple[str, int]]:
    """Run ``command``, which prints its address and ends with its input."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise NoPeer(f"{Path(command[0]).name}: {process.communicate()[1].strip()[-200:]}")
        yield address, process.pid
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
