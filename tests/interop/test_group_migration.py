"""Clients of a group change ``group.protocol`` one by one, forth and back: Java, librdkafka and
kafka-python see the same on kwire as on Kafka 4.3.1, and miss no record.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from kwire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.interop.clients import need_clients, need_java
from tests.waiting import until
from tools import java, java_tools
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop

_TOPIC, _GROUP = "t", "moving"
_PARTITIONS, _RECORDS = 6, 120
_HEARTBEAT_MS: Final = "300"
_SHARED: Final[dict[str, Any]] = {
    "group.id": _GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": True,
    "auto.commit.interval.ms": 200,
}  # fmt: skip


class _Readers:
    """The clients of one server's group, and the records that they got."""

    def __init__(self, bootstrap: str, stack: contextlib.ExitStack) -> None:
        self._bootstrap = bootstrap
        self._stack = stack
        self._stops: dict[str, Callable[[], None]] = {}
        self.read: set[bytes] = set()

    def confluent(self, name: str, protocol: str) -> None:
        """Start a consumer of librdkafka."""
        from confluent_kafka import Consumer

        own = {"heartbeat.interval.ms": 300} if protocol == "classic" else {}
        config = {**_SHARED, "bootstrap.servers": self._bootstrap, "group.protocol": protocol}
        consumer = Consumer({**config, **own, "client.id": name})
        consumer.subscribe([_TOPIC])

        def poll() -> None:
            message = consumer.poll(0.1)
            value = None if message is None or message.error() else message.value()
            if isinstance(value, bytes):
                self.read.add(value)

        self._start(name, poll, consumer.close)

    def kafka_python(self, name: str) -> None:
        """Start a consumer of kafka-python, which knows the classic protocol alone."""
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            _TOPIC, bootstrap_servers=self._bootstrap, client_id=name, group_id=_GROUP,
            auto_offset_reset="earliest", auto_commit_interval_ms=200, heartbeat_interval_ms=300,
        )  # fmt: skip

        def poll() -> None:
            for some in consumer.poll(timeout_ms=1000).values():
                self.read.update(one.value for one in some)

        self._start(name, poll, consumer.close)

    def _start(self, name: str, poll: Callable[[], None], close: Callable[[], None]) -> None:
        stopped = threading.Event()

        def run() -> None:
            while not stopped.is_set():
                poll()
            close()

        thread = threading.Thread(target=run)
        thread.start()

        def stop() -> None:
            stopped.set()
            thread.join()

        self._stops[name] = stop
        self._stack.callback(stop)

    def java(self, name: str) -> None:
        """Start Java's console consumer with the protocol of KIP-848."""
        properties = ["group.protocol=consumer", f"client.id={name}", "auto.offset.reset=earliest"]
        properties += [f"group.id={_GROUP}", "auto.commit.interval.ms=200"]
        arguments = ["--bootstrap-server", self._bootstrap, "--topic", _TOPIC]
        for one in properties:
            arguments += ["--consumer-property", one]
        process = self._stack.enter_context(
            subprocess.Popen(
                java.command(java.CONSOLE_CONSUMER, arguments),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        )
        self._stack.callback(process.kill)
        assert process.stdout is not None
        lines = process.stdout

        def take() -> None:
            for line in lines:
                self.read.add(line.rstrip(b"\n"))

        thread = threading.Thread(target=take)
        thread.start()

        def stop() -> None:
            process.terminate()  # its shutdown hook closes the consumer
            process.wait()
            thread.join()

        self._stops[name] = stop

    def stop(self, *names: str) -> None:
        """Close these clients; each leaves the group."""
        for name in names:
            self._stops.pop(name)()


def _shares(client: WireClient) -> dict[str, int]:
    """Partitions of each member, by client id; none while the group is on its way."""
    (group,) = client.call(ConsumerGroupDescribeRequest(group_ids=[_GROUP]), 1).groups
    if group.error_code == 0:
        if group.group_state != "Stable":
            return {}
        return {
            one.client_id: sum(len(t.partitions) for t in one.assignment.topic_partitions)
            for one in group.members
        }
    (classic,) = client.call(DescribeGroupsRequest(groups=[_GROUP]), 6).groups
    if classic.group_state != "Stable":
        return {}
    return {one.client_id: _partitions(one.member_assignment) for one in classic.members}


def _partitions(assignment: bytes) -> int:
    from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment

    version = int.from_bytes(assignment[:2])
    read = ConsumerProtocolAssignment.decode(assignment[2:], version, allow_trailing=True)
    return sum(len(one.partitions) for one in read.assigned_partitions)


def _type(client: WireClient) -> str:
    groups = client.call(ListGroupsRequest(), 5).groups
    return next((one.group_type for one in groups if one.group_id == _GROUP), "")


def _sent(bootstrap: str, batch: int) -> set[bytes]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    values = {b"%d-%d" % (batch, number) for number in range(_RECORDS)}
    for number, value in enumerate(sorted(values)):
        producer.produce(_TOPIC, value, partition=number % _PARTITIONS)
    assert producer.flush() == 0
    return values


def _committed(client: WireClient) -> int:
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=_GROUP, topics=None)])
    (group,) = client.call(asked, 9).groups
    return sum(one.committed_offset for topic in group.topics for one in topic.partitions)


def _journey(bootstrap: str) -> list[Any]:
    """The type of the group at each step, with the partitions of its members."""
    topic = ["--topic", _TOPIC, "--partitions", str(_PARTITIONS), "--replication-factor", "1"]
    java_tools.run_tool(java.TOPICS, ["--bootstrap-server", bootstrap, "--create", *topic])
    seen: list[Any] = []
    sent: set[bytes] = set()
    with contextlib.ExitStack() as stack, WireClient(bootstrap) as client:
        readers = _Readers(bootstrap, stack)

        def step(what: str, names: set[str]) -> None:
            sent.update(_sent(bootstrap, len(seen)))
            until(lambda: _shares(client).keys() == names and readers.read >= sent)
            shares = _shares(client)
            seen.append((what, _type(client), sorted(shares.values()), len(readers.read)))

        readers.confluent("rd", "classic")
        readers.kafka_python("python")
        step("two classic members", {"rd", "python"})
        readers.confluent("rd-new", "consumer")
        step("one of KIP-848 joins", {"rd", "python", "rd-new"})
        readers.java("java")
        readers.stop("rd")
        step("another takes the place of a classic one", {"python", "rd-new", "java"})
        readers.confluent("rd", "classic")
        readers.stop("rd-new", "java")
        step("those of KIP-848 leave", {"rd", "python"})
        readers.stop("rd", "python")
        seen.append(_committed(client))
    return seen


def test_clients_change_their_protocol_one_by_one_as_on_kafka(tmp_path: Path) -> None:
    need_clients()
    need_java()
    properties = {
        "group.initial.rebalance.delay.ms": "250",
        "group.consumer.min.heartbeat.interval.ms": _HEARTBEAT_MS,
        "group.consumer.heartbeat.interval.ms": _HEARTBEAT_MS,
    }
    own = [
        "--data-dir",
        str(tmp_path / "own"),
        "--group-consumer-heartbeat-interval-ms",
        _HEARTBEAT_MS,
    ]
    with (
        kafka(properties=properties) as cluster,
        gateway(*own) as server,
        ThreadPoolExecutor(2) as pool,
    ):
        of_kafka, of_kwire = pool.map(_journey, (cluster.bootstrap, server.bootstrap))
    assert of_kwire == of_kafka
    assert [one[1] for one in of_kwire[:-1]] == ["classic", "consumer", "consumer", "classic"]
    assert of_kwire[-1] == 4 * _RECORDS
