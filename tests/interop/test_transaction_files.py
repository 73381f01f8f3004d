"""Logs with transactions are the same to Kafka and to kwire's broker: each opens the directory of
the other, with the same producers, aborted transactions and committed records.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.broker.produce.producer_snapshot import decode_snapshot
from tests.gateway.sources.data_partitions import kill, led
from tests.gateway.sources.test_data_partition_transactions import SMALL, files, newest, states
from tests.gateway.sources.transactions import Model, committed, stable
from tests.interop.clients import need_clients
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.kafka import Cluster, kafka

pytestmark = pytest.mark.interop

TOPIC = "tx"
_LARGE = b"." * 300_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_clients()
    one = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    with kafka(properties=one) as running:
        create = ["--create", "--topic", TOPIC, "--partitions", "1", "--replication-factor", "1"]
        running.tool(java.TOPICS, [*create, "--config", "segment.bytes=1048576"])
        yield running


def write(bootstrap: str) -> None:
    """Transactions that overlap, in several segments; the last one stays open."""
    from confluent_kafka import Producer

    producers = {
        name: Producer({"bootstrap.servers": bootstrap, "transactional.id": name}) for name in "abc"
    }
    for producer in producers.values():
        producer.init_transactions(PATIENCE_S)
    for number in range(8):
        for name in "ab":
            producers[name].begin_transaction()
            producers[name].produce(TOPIC, b"%s-%d" % (name.encode(), number) + _LARGE)
            producers[name].flush(PATIENCE_S)
        ends = [producers[name] for name in ("ab" if number % 2 else "ba")]
        ends[0].commit_transaction(PATIENCE_S)
        ends[1].abort_transaction(PATIENCE_S)
    producers["c"].begin_transaction()
    producers["c"].produce(TOPIC, b"open")
    producers["c"].flush(PATIENCE_S)


def read_committed(bootstrap: str) -> tuple[list[bytes | None], int | None]:
    """The values that a consumer of committed records gets, and the end that it sees."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    values: list[bytes | None] = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        fault = message.error()
        if fault is not None:
            assert fault.code() == KafkaError._PARTITION_EOF, fault
            consumer.close()
            return values, message.offset()
        values.append(message.value())


def directory_of(cluster: Cluster) -> Path:
    (found,) = cluster.directory.rglob(f"{TOPIC}-0")
    return found


def test_each_opens_the_directory_of_the_other(cluster: Cluster, tmp_path: Path) -> None:
    write(cluster.bootstrap)
    values, end = read_committed(cluster.bootstrap)
    assert len(values) == 8
    (node,) = cluster.nodes
    cluster.stop_node(node)
    theirs, copy = directory_of(cluster), tmp_path / "theirs"
    shutil.copytree(theirs, copy)
    indexes = files(theirs, ".txnindex")
    assert len(indexes) > 2
    # Kafka's directory, with the files that follow from its batches, and without.
    for _ in range(2):
        one = led(copy)
        assert committed(one, most=1 << 20) == values
        assert stable(one) == end < one.high_watermark
        last = max(theirs.glob("*.snapshot"))
        assert sorted(newest(states(one))) == sorted(newest(decode_snapshot(last.read_bytes())))
        assert files(copy, ".txnindex") == indexes
        kill(one)
        for path in [*copy.glob("*.snapshot"), *copy.glob("*.txnindex")]:
            path.unlink()
    # A directory of kwire in the place of Kafka's.
    model, ours = Model(8), tmp_path / "ours"
    one = led(ours, SMALL, epoch=0)
    for _ in range(80):
        model.step(one)
    expected = committed(one), stable(one)
    one.close()
    dump = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS,
        ["--files", ",".join(map(str, [*ours.glob("*.snapshot"), *ours.glob("*.txnindex")]))],
    )
    assert dump.count("lastStableOffset: ") == sum(map(len, files(ours, ".txnindex").values())) / 34
    assert dump.count("producerId: ") > 50
    shutil.copy(theirs / "partition.metadata", ours)
    shutil.rmtree(theirs)
    shutil.copytree(ours, theirs)
    cluster.start_node(node)
    cluster.wait_for_node(node)
    assert read_committed(cluster.bootstrap) == expected
