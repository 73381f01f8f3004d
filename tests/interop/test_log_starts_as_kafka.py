"""Kafka and kwire start from each other's recovery points: after a clean stop and after a kill each
has every record in the directory of the other, and reads no more than its own rules say.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.files.clean_shutdown import FILE_NAME as CLEAN
from gateway.log.files.disk import Disk
from gateway.log.files.offset_checkpoint import RECOVERY_POINT, read_offsets
from gateway.sources.data_partition import DataPartition
from tests.gateway.log.counted_reads import read_by
from tests.gateway.sources.data_partitions import (
    appended,
    batch_of,
    kill,
    led,
    record,
    settle,
    shown,
    stop,
)
from tests.interop.clients import need_clients
from tests.waiting import PATIENCE_S
from tools import java
from tools.kafka import Cluster, kafka

pytestmark = pytest.mark.interop

TOPIC = "starts"
_VALUE = b"." * 10_000
_RECOVERED = re.compile(r"Recovering unflushed segment (\d+)\. .* for starts-0")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_clients()
    with kafka() as running:
        create = ["--create", "--topic", TOPIC, "--partitions", "1", "--replication-factor", "1"]
        running.tool(java.TOPICS, [*create, "--config", "segment.bytes=1048576"])
        yield running


def produce(bootstrap: str, count: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for _ in range(count):
        producer.produce(TOPIC, _VALUE)
        producer.flush(PATIENCE_S)


def count(bootstrap: str) -> int:
    """The records of the topic, up to its end."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found = 0
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        fault = message.error()
        if fault is not None:
            assert fault.code() == KafkaError._PARTITION_EOF, fault
            consumer.close()
            return found
        found += 1


def partition_of(cluster: Cluster) -> Path:
    (found,) = cluster.directory.rglob(f"{TOPIC}-0")
    return found


def opened(data_dir: Path) -> DataPartition:
    one: DataPartition = led(data_dir / f"{TOPIC}-0", epoch=0, disk=Disk())
    assert one.stored.log is not None
    # Kafka's leader has had several epochs.
    one.lead(record(one.stored.log.last_epoch))
    settle(one)
    return one


def start(cluster: Cluster) -> list[int]:
    """Start the node; return the segments of the topic that it recovers."""
    (node,) = cluster.nodes
    cluster.start_node(node)
    cluster.wait_for_node(node)
    return [int(one) for one in _RECOVERED.findall(node.running_process().output_end(sys.maxsize))]


def put(ours: Path, theirs: Path, *, is_clean: bool) -> None:
    """Replace the partition in Kafka's directory and the recovery points."""
    shutil.rmtree(theirs / f"{TOPIC}-0")
    shutil.copytree(ours / f"{TOPIC}-0", theirs / f"{TOPIC}-0")
    shutil.copy(ours / RECOVERY_POINT, theirs)
    if not is_clean:
        (theirs / CLEAN).unlink(missing_ok=True)


def test_each_starts_from_the_recovery_point_of_the_other(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(cluster.bootstrap, 330)
    (node,) = cluster.nodes
    theirs = partition_of(cluster).parent
    cluster.stop_node(node)

    # Kafka stopped cleanly.
    ours = tmp_path / "clean"
    shutil.copytree(theirs, ours)
    assert read_offsets(ours / RECOVERY_POINT)[TOPIC, 0] == 330
    made: list[DataPartition] = []
    read = read_by(monkeypatch, lambda: made.append(opened(ours)))
    size = sum(path.stat().st_size for path in (ours / f"{TOPIC}-0").glob("*.log"))
    assert size > 3_000_000 and read < size / 10
    one = made[0]
    assert len(shown(one)) == 330 and one.stored.repairs == []
    for _ in range(150):
        appended(one, batch_of(_VALUE))

    # kwire stopped cleanly.
    stop(one)
    put(ours, theirs, is_clean=True)
    assert start(cluster) == [] and count(cluster.bootstrap) == 480
    cluster.stop_node(node)
    # The same, and another process has removed the note of the clean stop.
    put(ours, theirs, is_clean=False)
    last = max(int(path.stem) for path in (ours / f"{TOPIC}-0").glob("*.log"))
    assert start(cluster) == [last] and count(cluster.bootstrap) == 480

    # Kafka is killed.
    produce(cluster.bootstrap, 150)
    cluster.kill_node(node)
    ours = tmp_path / "killed"
    shutil.copytree(theirs, ours)
    one = opened(ours)
    assert len(shown(one)) == 630
    # kwire is killed.
    for _ in range(150):
        appended(one, batch_of(_VALUE))
    kill(one)
    put(ours, theirs, is_clean=False)
    recovered = start(cluster)
    assert last <= min(recovered) and count(cluster.bootstrap) == 780
