"""Stock clients of a server with workers: consumers and an admin while a worker is killed."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kwire.protocol import CLUSTER_METADATA_TOPIC
from tests.waiting import PATIENCE_S, until
from tools.gateway_process import Gateway, gateway

pytestmark = pytest.mark.interop

#: Kills of the worker, and topics made after each.
KILLS, TOPICS = 3, 5


def test_consumer_and_admin_go_on_while_workers_are_killed(tmp_path: Path) -> None:
    data = ("--source", "controller", "--data-dir", str(tmp_path / "node"))
    management = ("--management-listener", "127.0.0.1:0")
    with gateway(*data, *management, "--workers", "2") as server:
        consumers = [_consumer(server) for _ in range(4)]
        made: list[str] = []
        read: list[tuple[int, bytes]] = []
        for number in range(KILLS):
            made += _create(server, [f"topic-{number}-{one}" for one in range(TOPICS)])
            _read_until(consumers, read, made[-1])
            os.kill(_status(server)["workers"][1]["pid"], signal.SIGKILL)
        made += _create(server, ["last"])
        _read_until(consumers, read, "last")
        for consumer in consumers:
            consumer.close()
        _wait_until_replaced(server)
        assert _status(server)["workers"][1]["restarts"] == KILLS
    offsets = sorted({offset for offset, _ in read})
    # The leader's first records are control records, which consumers do not show.
    assert offsets[0] <= 3
    assert offsets == list(range(offsets[0], offsets[-1] + 1)), "no record was skipped"
    values = b"".join(value for _, value in read)
    assert all(name.encode() in values for name in made)


def _consumer(server: Gateway) -> Any:
    """A member of one group, most of which are idle: there is one partition."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
        }
    )
    consumer.subscribe([CLUSTER_METADATA_TOPIC])
    return consumer


def _create(server: Gateway, names: list[str]) -> list[str]:
    """Create topics, and try again where the connection was to the worker that was killed."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    made = admin.create_topics([NewTopic(name, 1, 1) for name in names], request_timeout=PATIENCE_S)
    for future in made.values():
        try:
            future.result()
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    return names


def _read_until(consumers: list[Any], read: list[tuple[int, bytes]], name: str) -> None:
    """Poll all members until one has read the record of the topic ``name``."""

    def poll() -> bool:
        for consumer in consumers:
            for message in consumer.consume(500, timeout=0.1):
                if message.error() is None:
                    read.append((message.offset(), message.value() or b""))
                elif message.error().fatal():
                    pytest.fail(str(message.error()))
        return any(name.encode() in value for _, value in read[-2000:])

    until(poll, f"{name} is read")


def _status(server: Gateway) -> Any:
    with urllib.request.urlopen(f"http://{server.ready['management']}/status") as page:
        return json.load(page)


def _wait_until_replaced(server: Gateway) -> None:
    until(
        lambda: _status(server)["workers"],
        "all workers are ready",
        lambda workers: all(worker["ready"] for worker in workers),
    )
