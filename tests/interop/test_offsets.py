"""Stock clients look up offsets by position and by time; the expected ones come from the
segment's records.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kwire.protocol import CLUSTER_METADATA_PARTITION, CLUSTER_METADATA_TOPIC
from tests.interop.clients import need_clients
from tests.interop.reading import Record
from tests.interop.truth import Log, log_of
from tests.shared import needs_shared
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.gateway_process import gateway

pytestmark = needs_shared


@dataclass
class Served:
    """A log and the address where it is served."""

    bootstrap: str
    log: Log
    records: list[Record]

    def first_at(self, timestamp: int) -> Record:
        """The first record of that time or later, control records included: what Kafka answers."""
        return next(record for record in self.records if record.timestamp >= timestamp)


@pytest.fixture(scope="module")
def served(logs: Any) -> Iterator[Served]:
    need_clients()
    node = logs("p-one-basic") / "nodes/1"
    log = log_of(node / CLUSTER_METADATA_PARTITION, node.parent.parent / "truth/1")
    with gateway("--source", "log", "--log-dir", str(node)) as server:
        yield Served(
            server.bootstrap, log, [record for batch in log.batches for record in batch.records()]
        )


def times(served: Served) -> list[int]:
    """Times before, at, between and at the last of the records'."""
    stamps = sorted({record.timestamp for record in served.records})
    middle = stamps[len(stamps) // 2]
    return [0, stamps[0], stamps[1] - 1, middle, middle + 1, stamps[-1]]


def test_kafka_python_finds_offsets(served: Served) -> None:
    from kafka import KafkaConsumer, TopicPartition

    partition = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
    consumer = KafkaConsumer(bootstrap_servers=served.bootstrap)
    try:
        assert consumer.beginning_offsets([partition]) == {partition: served.log.start_offset}
        assert consumer.end_offsets([partition]) == {partition: served.log.end_offset}
        for timestamp in times(served):
            expected = served.first_at(timestamp)
            found = consumer.offsets_for_times({partition: timestamp})[partition]
            assert (found.offset, found.timestamp) == (expected.offset, expected.timestamp)
        beyond = consumer.offsets_for_times({partition: served.records[-1].timestamp + 1})
        assert beyond[partition] is None
    finally:
        consumer.close()


def test_confluent_kafka_finds_offsets(served: Served) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "offsets"})
    try:
        bounds = consumer.get_watermark_offsets(
            TopicPartition(CLUSTER_METADATA_TOPIC, 0), timeout=PATIENCE_S
        )
        assert bounds == (served.log.start_offset, served.log.end_offset)
        for timestamp in times(served):
            [found] = consumer.offsets_for_times(
                [TopicPartition(CLUSTER_METADATA_TOPIC, 0, timestamp)], timeout=PATIENCE_S
            )
            assert found.offset == served.first_at(timestamp).offset
    finally:
        consumer.close()


def test_kcat_finds_offsets(served: Served) -> None:
    for timestamp in times(served):
        command = [
            "kcat",
            "-b",
            served.bootstrap,
            "-Q",
            "-t",
            f"{CLUSTER_METADATA_TOPIC}:0:{timestamp}",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert done.stdout.split() == [
            CLUSTER_METADATA_TOPIC,
            "[0]",
            "offset",
            str(served.first_at(timestamp).offset),
        ]


def test_kafka_get_offsets_finds_offsets(served: Served) -> None:
    """kafka-get-offsets has its own names for earliest, latest and the largest timestamp."""
    largest = max(record.timestamp for record in served.records)
    expected = {
        "earliest": served.log.start_offset,
        "latest": served.log.end_offset,
        "max-timestamp": next(
            record.offset for record in served.records if record.timestamp == largest
        ),
        str(times(served)[3]): served.first_at(times(served)[3]).offset,
    }
    for time, offset in expected.items():
        arguments = [
            "--bootstrap-server",
            served.bootstrap,
            "--topic",
            CLUSTER_METADATA_TOPIC,
            "--time",
            time,
        ]
        assert (
            java_tools.run_tool(java.GET_OFFSETS, arguments).strip()
            == f"{CLUSTER_METADATA_TOPIC}:0:{offset}"
        )
