"""Stock clients commit, abort, fence and send offsets of groups in transactions, as with Kafka;
what was decided before a kill is carried out after it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.broker.internal_topic import partition_for
from gateway.config.config import Config
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.gateway.broker.produce.batches import produced
from tests.interop.clients import need_clients
from tests.interop.java_source import run_source
from tests.interop.transaction_cases import TOPIC, Producer, Side
from tests.waiting import PATIENCE_S, until
from tools import java, java_tools
from tools.gateway_process import Gateway, gateway, launch, wait_until_ready
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("Transact.java")
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node") / "data"


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[Gateway]:
    need_clients()
    with gateway("--process-roles", "broker,controller", "--data-dir", str(data_dir)) as running:
        with WireClient(running.bootstrap) as client:
            Side(client).prepare()
        yield running


def test_java_producers_commit_abort_and_fence(server: Gateway) -> None:
    said = run_source(PROGRAM, server.bootstrap, TOPIC)
    lines = dict(line.split(" ", 1) for line in said.splitlines() if line)
    assert lines["fenced"] == "ProducerFencedException"
    committed, uncommitted = (
        set(lines[name].strip("[]").split(", ")) for name in ("committed", "uncommitted")
    )
    kept = {f"{name}-{n}" for name in ("kept", "kept-too", "second") for n in range(20)}
    assert committed == kept | {"with-offsets"}
    aborted = {f"aborted-{n}" for n in range(20)}
    assert uncommitted == committed | aborted | {"fenced"}
    assert "after abort null" in said and "after commit 5 note" in said


def test_tool_lists_and_describes_what_producers_did(server: Gateway) -> None:
    def tool(*arguments: str) -> str:
        return java_tools.run_tool(
            TRANSACTIONS, ["--bootstrap-server", server.bootstrap, *arguments]
        )

    with WireClient(server.bootstrap) as client:
        side = Side(client)
        producer = side.producer("tool")
        assert side.add("tool", producer) == "NONE"
        assert "Ongoing" in tool("list")
        described = tool("describe", "--transactional-id", "tool")
        assert "Ongoing" in described and f"{TOPIC}-0" in described
        assert side.end("tool", producer)[0] == "NONE"
        assert "CompleteCommit" in tool("describe", "--transactional-id", "tool")


def test_kafka_reads_the_records_of_the_coordinator(server: Gateway, data_dir: Path) -> None:
    index = partition_for("tool", Config().transaction_state_log_num_partitions)
    log = data_dir / f"__transaction_state-{index}" / "00000000000000000000.log"
    said = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS,
        ["--transaction-log-decoder", "--files", str(log), "--print-data-log"],
    )
    assert '"transactionalId":"tool"' in said
    # Empty, Ongoing, PrepareCommit, CompleteCommit.
    assert re.findall(r'"transactionStatus":(\d)', said) == ["0", "1", "2", "4"]


def test_librdkafka_commits_and_aborts(server: Gateway) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "librdkafka"})
    producer.init_transactions(PATIENCE_S)
    for name, commits in (("rd-kept", True), ("rd-aborted", False), ("rd-kept-too", True)):
        producer.begin_transaction()
        producer.produce(TOPIC, name, partition=0)
        producer.flush(PATIENCE_S)
        if commits:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    assert _read(server, "rd-") == ["rd-kept", "rd-kept-too"]


def test_kafka_python_commits_and_aborts(server: Gateway) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=server.bootstrap, transactional_id="kafka-python")
    producer.init_transactions()
    for name, commits in (("py-kept", True), ("py-aborted", False), ("py-kept-too", True)):
        producer.begin_transaction()
        producer.send(TOPIC, name.encode(), partition=0).get(timeout=PATIENCE_S)
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    assert _read(server, "py-") == ["py-kept", "py-kept-too"]


def test_aiokafka_commits_aborts_and_sends_offsets(server: Gateway) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.structs import TopicPartition

    async def transact() -> int | None:
        producer = AIOKafkaProducer(
            bootstrap_servers=server.bootstrap, transactional_id="aiokafka", acks="all"
        )
        await producer.start()
        for name, commits in (("ai-kept", True), ("ai-aborted", False), ("ai-kept-too", True)):
            await producer.begin_transaction()
            await producer.send_and_wait(TOPIC, name.encode(), partition=0)
            if commits:
                await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 3}, "ai")
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, group_id="ai")
        await consumer.start()
        committed = await consumer.committed(TopicPartition(TOPIC, 0))
        await consumer.stop()
        return committed

    assert asyncio.run(transact()) == 3
    assert _read(server, "ai-") == ["ai-kept", "ai-kept-too"]


def _read(server: Gateway, prefix: str) -> list[str]:
    """Return the committed values of the first partition that begin so, by librdkafka."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": server.bootstrap,
        "group.id": "unused",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[str] = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error() is not None:
            break  # the end
        found.append((message.value() or b"").decode())
    consumer.close()
    return [value for value in found if value.startswith(prefix)]


def _produce(side: Side, name: str, producer: Producer) -> int:
    """Produce the name as a record of the transaction; return the error."""
    batch = produced(
        name.encode(),
        is_transactional=True,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
    )
    data = TopicProduceData(
        name=TOPIC, partition_data=[PartitionProduceData(index=0, records=bytes(batch))]
    )
    request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=60_000, topic_data=[data])
    error: int = side.call(request, 11).responses[0].partition_responses[0].error_code
    return error


def test_transactions_that_were_decided_before_a_kill_are_visible_after_it(
    tmp_path: Path,
) -> None:
    arguments = ["--process-roles", "broker,controller", "--data-dir", str(tmp_path / "data")]
    process = launch(tmp_path, *arguments)
    try:
        bootstrap = wait_until_ready(process, PATIENCE_S, time.monotonic()).bootstrap
        with WireClient(bootstrap) as client:
            side = Side(client)
            side.prepare()
            producers = {name: side.producer(name) for name in ("done", "open")}
            for name, producer in producers.items():
                assert side.add(name, producer) == "NONE"
                assert _produce(side, name, producer) == 0
            assert side.end("done", producers["done"])[0] == "NONE"
    finally:
        process.kill()
    with gateway(*arguments) as server, WireClient(server.bootstrap) as client:
        side = Side(client)
        until(lambda: side.state("done")[1:2] == ("CompleteCommit",), "the commit")
        # The open one stays so, and its producer goes on.
        assert side.state("open")[1] == "Ongoing"
        assert _read(server, "") == ["done"]
        assert side.end("open", producers["open"])[0] == "NONE"
        until(lambda: _read(server, "") == ["done", "open"], "the other commit")
