"""A Kafka Streams application with exactly_once_v2 counts each word once, although it and the
broker are killed while it counts.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kwire.jars.maven import MavenError
from tests.interop.clients import missing, need_clients
from tests.waiting import PATIENCE_S, until
from tools import java, streams_jars
from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.process import Process, lasting_ports

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("WordCount.java")
WORDS = [f"word-{number}" for number in range(50)]
#: How often each word comes before the next kill.
TIMES = 20


class Counts:
    """Reads the counts as committed records: by word, in order."""

    def __init__(self, bootstrap: str) -> None:
        self.read: dict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe(["counts"])

    def reach(self, wanted: Callable[[list[int]], bool], what: str) -> None:
        """Read until ``wanted`` holds for the newest counts of the words that have one."""

        def reached() -> bool:
            message = self._consumer.poll(0.5)
            if message is not None and message.error() is None:
                key, value = message.key(), message.value()
                assert key is not None and value is not None
                self.read[key.decode()].append(int.from_bytes(value, "big"))
            return wanted([counts[-1] for counts in self.read.values()])

        until(reached, what)

    def close(self) -> None:
        self._consumer.close()


def application(bootstrap: str, scratch: Path) -> Process:
    class_path = os.pathsep.join(map(str, [*java.class_path(), *streams_jars.jars()]))
    options = [*java.QUICK_START, "-Xmx256m", "-cp", class_path]
    command = [java.java(), *options, str(PROGRAM), bootstrap, str(scratch / "state")]
    return Process("a Streams application", command, scratch / "application")


def broker(scratch: Path, ports: list[int]) -> Gateway:
    client, controller = ports
    listeners = f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"
    scratch.mkdir()
    process = launch(scratch, "--data-dir", str(scratch.parent / "data"), "--listeners", listeners)
    return wait_until_ready(process, PATIENCE_S, time.monotonic())


def test_words_are_counted_once_although_application_and_broker_are_killed(tmp_path: Path) -> None:
    need_clients()
    try:
        streams_jars.jars()
    except MavenError as error:
        missing(str(error))
    ports = lasting_ports(2)
    server = broker(tmp_path / "first", ports)
    topics = [NewTopic(name, 3, 1) for name in ("words", "counts")]
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for made in admin.create_topics(topics).values():
        made.result()
    producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True})

    def produce() -> None:
        for _ in range(TIMES):
            for word in WORDS:
                producer.produce("words", word.encode(), word.encode())
        producer.flush()

    counts = Counts(server.bootstrap)
    running = application(server.bootstrap, tmp_path)
    try:
        produce()
        counts.reach(lambda newest: max(newest, default=0) > 0, "the first counts")
        running.kill()
        running = application(server.bootstrap, tmp_path)
        produce()
        counts.reach(lambda newest: max(newest) > TIMES, "counts of the second application")
        server.process.kill()
        server = broker(tmp_path / "second", ports)
        produce()
        counts.reach(
            lambda newest: len(newest) == len(WORDS) and set(newest) == {3 * TIMES},
            "each word is counted as often as it came",
        )
    finally:
        counts.close()
        running.kill()
        assert server.process.stop() == 0
    for word, read in counts.read.items():
        assert read == sorted(set(read)), f"{word} is counted once, and in order"
