"""Kafka Connect on a broker: lines go from a file to a topic and from there to a file, although the
broker and the worker are killed meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.interop.clients import missing, need_clients
from tests.waiting import PATIENCE_S, until
from tools import connect, java
from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.process import lasting_ports

pytestmark = pytest.mark.interop

#: Lines that are written before each kill, and after the last one.
COUNT = 200


class Broker:
    """``kwire serve``, at the same ports after a kill."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = lasting_ports(2)
        self._running: Gateway | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def start(self) -> None:
        client, controller = self._ports
        listeners = f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"
        scratch = self._directory / f"start-{time.monotonic_ns()}"
        scratch.mkdir()
        data = str(self._directory / "data")
        process = launch(scratch, "--data-dir", data, "--listeners", listeners)
        self._running = wait_until_ready(process, PATIENCE_S, time.monotonic())

    def kill(self) -> None:
        assert self._running is not None
        self._running.process.kill()


class Lines:
    """The lines of the file that a source reads, by number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: list[str] = []

    def write(self) -> None:
        more = [f"line-{len(self.written) + number}" for number in range(COUNT)]
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in more)
        self.written += more


def values(bootstrap: str, topic: str) -> list[str]:
    """The committed values of a topic of one partition, to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
        found.append((message.value() or b"").decode())
    consumer.close()
    return found


def sunk(path: Path) -> list[str]:
    """The lines of a sink's file, without those that it wrote again after a fault."""
    text = path.read_text() if path.exists() else ""
    return list(dict.fromkeys(text.splitlines()))


def need_connect() -> None:
    need_clients()
    try:
        connect.file_jars()
    except java.JavaError as error:
        missing(str(error))


def source(lines: Lines) -> dict[str, str]:
    return {"connector.class": connect.FILE_SOURCE, "file": str(lines.path), "topic": "lines"}


def until_sunk(path: Path, wanted: Sequence[str]) -> None:
    until(lambda: sunk(path) == wanted, f"{len(wanted)} lines in the file of the sink")


def test_lines_of_a_file_reach_a_topic_and_a_file_although_the_broker_is_killed(
    tmp_path: Path,
) -> None:
    need_connect()
    broker, lines, target = Broker(tmp_path), Lines(tmp_path / "source"), tmp_path / "target"
    connectors = {"source": source(lines), "sink": {"topics": "lines", "file": str(target)}}
    # Connect's producers are not idempotent unless they are told to be.
    idempotent = {"producer.enable.idempotence": "true"}
    broker.start()
    try:
        lines.write()
        with connect.standalone(broker.bootstrap, connectors, tmp_path, idempotent):
            until_sunk(target, lines.written)
            broker.kill()
            lines.write()
            broker.start()
            until_sunk(target, lines.written)
        # The offsets of the source are in the worker's file, those of the sink in its group.
        lines.write()
        with connect.standalone(broker.bootstrap, connectors, tmp_path, idempotent):
            until_sunk(target, lines.written)
        assert values(broker.bootstrap, "lines") == lines.written
    finally:
        broker.kill()


def test_source_in_transactions_writes_each_line_once_although_everything_is_killed(
    tmp_path: Path,
) -> None:
    need_connect()
    broker, lines = Broker(tmp_path), Lines(tmp_path / "source")
    (port,) = lasting_ports(1)
    broker.start()
    lines.write()
    worker = connect.distributed(broker.bootstrap, port, tmp_path)
    try:
        until(lambda: connect.configure(port, "source", source(lines)), "the connector")
        until(lambda: values(broker.bootstrap, "lines") == lines.written, "the first lines")
        lines.write()
        worker.kill()
        broker.kill()
        lines.write()
        broker.start()
        worker = connect.distributed(broker.bootstrap, port, tmp_path)
        until(lambda: values(broker.bootstrap, "lines") == lines.written, "each line once")
    finally:
        worker.kill()
        broker.kill()
