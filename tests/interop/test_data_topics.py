"""Stock clients produce to topics of one node and consume from them, in groups too; what they were
acknowledged is there after a kill; Kafka's own tool finds no fault in the files.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented import blocks, commands
from tests.interop.clients import need_clients
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.bench import perf_tools
from tools.bench.data_servers import DataServer
from tools.bench.passes import java_consumer
from tools.gateway_process import Gateway, gateway, launch, wait_until_ready

TOPIC = "data"
COUNT = 300
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"


def values(client: str) -> list[str]:
    return [f"{client}-{number}" for number in range(COUNT)]


def by_kcat(bootstrap: str) -> None:
    lines = "".join(f"{value}\n" for value in values("kcat"))
    command = ["kcat", "-b", bootstrap, "-P", "-t", TOPIC, "-z", "gzip", "-X", "acks=1"]
    subprocess.run(command, input=lines, text=True, check=True, timeout=PATIENCE_S)


def by_console_producer(bootstrap: str) -> None:
    """Idempotent with acks=all, as Java's producer is by default."""
    lines = "".join(f"{value}\n" for value in values("console"))
    arguments = ["--bootstrap-server", bootstrap, "--topic", TOPIC]
    command = java.command(java.CONSOLE_PRODUCER, arguments)
    subprocess.run(command, input=lines, text=True, check=True, timeout=PATIENCE_S)


def by_kafka_python(bootstrap: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", compression_type="gzip"
    )
    sent = [producer.send(TOPIC, value.encode()) for value in values("kafka-python")]
    for one in sent:
        one.get(timeout=PATIENCE_S)
    producer.close()


def by_confluent_kafka(bootstrap: str) -> None:
    from confluent_kafka import Producer

    faults: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"}
    )
    for value in values("confluent"):
        producer.produce(TOPIC, value, on_delivery=lambda fault, _: faults.append(fault))
    assert producer.flush(PATIENCE_S) == 0
    assert faults == [None] * COUNT


PRODUCERS = {
    "kcat": by_kcat,
    "console": by_console_producer,
    "kafka-python": by_kafka_python,
    "confluent": by_confluent_kafka,
}
EVERYTHING = sorted(value for client in PRODUCERS for value in values(client))


def arguments(data_dir: Path) -> list[str]:
    return ["--data-dir", str(data_dir)]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Path]]:
    """A node that was killed after each producer had its acknowledgements, started again."""
    need_clients()
    data_dir = tmp_path_factory.mktemp("node") / "data"
    process = launch(tmp_path_factory.mktemp("killed"), *arguments(data_dir))
    try:
        bootstrap = wait_until_ready(process, PATIENCE_S, time.monotonic()).bootstrap
        topic = ["--create", "--topic", TOPIC, "--partitions", "3", "--replication-factor", "1"]
        # At once: the ready line says that the broker is unfenced.
        java_tools.run_tool(java.TOPICS, ["--bootstrap-server", bootstrap, *topic])
        for produce in PRODUCERS.values():
            produce(bootstrap)
    finally:
        process.kill()
    with gateway(*arguments(data_dir)) as server:
        yield server, data_dir


def test_kcat_reads_everything(killed: tuple[Gateway, Path]) -> None:
    command = ["kcat", "-b", killed[0].bootstrap, "-C", "-t", TOPIC, "-o", "beginning"]
    read = subprocess.run(
        [*command, "-c", str(len(EVERYTHING))],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert sorted(read.stdout.splitlines()) == EVERYTHING


def test_console_consumer_reads_everything_in_a_group(killed: tuple[Gateway, Path]) -> None:
    wanted = ["--from-beginning", "--max-messages", str(len(EVERYTHING))]
    ask = ["--bootstrap-server", killed[0].bootstrap, "--topic", TOPIC, "--group", "console"]
    output = java_tools.run_tool(java.CONSOLE_CONSUMER, [*ask, *wanted])
    assert sorted(output.splitlines()) == EVERYTHING


def test_kafka_python_reads_everything_and_goes_on_where_it_committed(
    killed: tuple[Gateway, Path],
) -> None:
    from kafka import KafkaConsumer

    read: list[str] = []
    for at_most in (len(EVERYTHING) // 2, len(EVERYTHING)):
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=killed[0].bootstrap,
            group_id="kafka-python",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        while len(read) < at_most:
            for batch in consumer.poll(1000).values():
                read += [record.value.decode() for record in batch]
        consumer.commit()
        consumer.close()
    assert sorted(read) == EVERYTHING


def test_confluent_kafka_reads_everything(killed: tuple[Gateway, Path]) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": killed[0].bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(3)])
    read: list[str] = []
    while len(read) < len(EVERYTHING):
        message = consumer.poll(PATIENCE_S)
        assert message is not None and message.error() is None
        value = message.value()
        assert value is not None
        read.append(value.decode())
    consumer.close()
    assert sorted(read) == EVERYTHING


def test_records_of_a_java_producer_have_its_sequences_in_the_files(
    killed: tuple[Gateway, Path],
) -> None:
    """``kafka-dump-log`` reads every batch, and finds the CRC of each right."""
    segments = sorted(killed[1].glob(f"{TOPIC}-*/*.log"))
    dump = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--files", ",".join(map(str, segments)), "--deep-iteration"]
    )
    batches = [line for line in dump.splitlines() if line.startswith("baseOffset:")]
    assert batches and all("isvalid: true" in line for line in batches)
    assert any("producerId: -1" not in line for line in batches)
    assert sum(line.startswith("| offset:") for line in dump.splitlines()) == len(EVERYTHING)


def test_documented_commands_write_and_read_a_record(killed: tuple[Gateway, Path]) -> None:
    """The commands of docs/broker.md, in their order."""
    bootstrap = killed[0].bootstrap
    server, create, produce, consume, *_ = (
        [bootstrap if word == "127.0.0.1:9092" else word for word in words]
        for block in blocks()
        if block.page == "docs/broker.md"
        for words in commands(block)
    )
    assert server == ["kwire", "serve"]
    java_tools.run_tool(java.TOPICS, create[1:])
    assert produce[0] == "echo"
    writer = ["kcat", "-b", bootstrap, "-P", "-t", "orders"]
    subprocess.run(writer, input=produce[1], text=True, check=True, timeout=PATIENCE_S)
    read = subprocess.run(
        consume, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    ).stdout
    assert read.split() == ["hello"]


def test_deleted_records_are_gone_for_the_tools_of_kafka(
    killed: tuple[Gateway, Path], tmp_path: Path
) -> None:
    bootstrap = ["--bootstrap-server", killed[0].bootstrap]
    wanted = [(0, 5, "low_watermark: 5"), (1, 10**6, "OffsetOutOfRangeException")]
    partitions = [{"topic": TOPIC, "partition": at, "offset": offset} for at, offset, _ in wanted]
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"partitions": partitions, "version": 1}))
    output = java_tools.run_tool(DELETE_RECORDS, [*bootstrap, "--offset-json-file", str(offsets)])
    for at, _, outcome in wanted:
        (line,) = [line for line in output.splitlines() if f"{TOPIC}-{at}" in line]
        assert outcome in line
    ask = [*bootstrap, "--topic-partitions", f"{TOPIC}:0", "--time", "earliest"]
    assert java_tools.run_tool(java.GET_OFFSETS, ask).split() == [f"{TOPIC}:0:5"]


def test_measuring_and_verifying_tools_of_kafka_count_every_record(
    killed: tuple[Gateway, Path],
) -> None:
    server, topic = killed[0], perf_tools.TOPIC
    node = DataServer("kwire", server.bootstrap, server.pid)
    node.create(topic)
    assert perf_tools.produce(node, 400, 100, {"batch.size": "65536"}).rate > 0
    end = node.end(topic)
    assert end == 400 + 100  # with those of the warm-up
    java_consumer(server.bootstrap, topic, end)

    where = ["--bootstrap-server", server.bootstrap]
    sent = java_tools.run_tool(
        java.VERIFIABLE_PRODUCER,
        [*where, "--topic", topic, "--max-messages", "50", "--acks", "-1"],
    )
    assert sent.count("producer_send_success") == 50
    java_tools.run_tool(
        java.VERIFIABLE_CONSUMER,
        [*where, "--topic", topic, "--group-id", "verified", "--max-messages", str(end + 50),
         "--reset-policy", "earliest"],
    )  # fmt: skip
    (row,) = [
        line.split()
        for line in java_tools.run_tool(
            java.CONSUMER_GROUPS, [*where, "--describe", "--group", "verified", "--offsets"]
        ).splitlines()
        if topic in line
    ]
    assert row[:6] == ["verified", topic, "0", str(end + 50), str(end + 50), "0"]


def test_offsets_and_deletion_of_records_by_the_topic_are_those_of_kafka(
    killed: tuple[Gateway, Path],
) -> None:
    """The last test: it deletes the topic."""
    server, data_dir = killed
    ask = ["--bootstrap-server", server.bootstrap, "--topic", TOPIC]
    found = java_tools.run_tool(java.GET_OFFSETS, ask).split()
    assert sum(int(line.rsplit(":", 1)[1]) for line in found) == len(EVERYTHING)
    java_tools.run_tool(java.TOPICS, [*ask, "--delete"])
    java_tools.retried(lambda: _no_directories(data_dir))


def _no_directories(data_dir: Path) -> str:
    # Those of partitions that were deleted wait under other names, as in Kafka.
    left = [path for path in data_dir.glob(f"{TOPIC}-*") if not path.name.endswith("-delete")]
    if left:
        raise java.JavaError(f"still there: {left}")
    return ""
