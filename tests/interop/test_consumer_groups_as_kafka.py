"""Consumer groups of KIP-848 are as in Kafka 4.3.1: the same requests get the same answers, and its
records are read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.base.slices import run
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.records import RECORD_TYPES, decode_record
from gateway.groups.consumer.topics import TopicHashes
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.gateway.groups.consumer.world import FakeTopics
from tests.interop.clients import need_clients
from tests.interop.group_requests import TOPICS, Conversation, Server, assert_same
from tests.interop.mixed_group_requests import MixedConversation
from tests.waiting import PATIENCE_S, until
from tools import java, java_tools
from tools.gateway_process import gateway
from tools.kafka import kafka

pytestmark = pytest.mark.interop

_SEEDS, _MORE_SEEDS, _MIXED_SEEDS = range(40), range(1000, 1020), range(2000, 2040)
#: No pause between assignments, and before the first rebalance of a classic group.
_PROPERTIES = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}
_OPTIONS = [
    "--group-consumer-assignment-interval-ms", "0", "--group-initial-rebalance-delay-ms", "0",
]  # fmt: skip


@pytest.fixture(scope="module")
def bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Kafka, and kwire, with the same topics."""
    need_clients()
    own = ["--data-dir", str(tmp_path_factory.mktemp("own") / "data")]
    with (
        kafka(properties=_PROPERTIES) as cluster,
        gateway(*own, *_OPTIONS) as server,
    ):
        addresses = (cluster.bootstrap, server.bootstrap)
        for address in addresses:
            for name, partitions in TOPICS.items():
                topic = ["--topic", name, "--partitions", str(partitions)]
                ask = ["--bootstrap-server", address, "--create", "--replication-factor", "1"]
                java_tools.run_tool(java.TOPICS, [*ask, *topic])
            _find_coordinators(Server(address))
        yield addresses


def _find_coordinators(server: Server) -> None:
    """Have the topic of the groups created, and wait until all its partitions are loaded."""
    ids = [f"group-{number}" for number in (*_SEEDS, *_MORE_SEEDS, *_MIXED_SEEDS)]
    server.ask(FindCoordinatorRequest(coordinator_keys=ids), 4)
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=one) for one in ids])
    until(lambda: not any(group.error_code for group in server.ask(asked, 9).groups))


def test_random_requests_get_the_answers_of_kafka(bootstraps: tuple[str, str]) -> None:
    first, second = (Server(address) for address in bootstraps)
    assert_same((Conversation(seed, (first, second)) for seed in _SEEDS), steps=60)


def test_members_of_both_protocols_get_the_answers_of_kafka(bootstraps: tuple[str, str]) -> None:
    first, second = (Server(address) for address in bootstraps)
    talks = [MixedConversation(seed, (first, second)) for seed in _MIXED_SEEDS]
    assert_same(talks, steps=80)
    upgrades, downgrades = (
        sum(getattr(one, name) for one in talks) for name in ("upgrades", "downgrades")
    )
    assert min(upgrades, downgrades) >= len(talks) / 4


def test_records_of_kafka_are_read_with_their_hashes(bootstraps: tuple[str, str]) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    server = Server(bootstraps[0])
    other = Server(bootstraps[1])
    kinds = (Conversation, MixedConversation)
    talks = [kinds[seed % 2](seed, (server, other)) for seed in _MORE_SEEDS]
    assert_same(talks, steps=40)
    topics = FakeTopics()
    for name, partitions in TOPICS.items():
        topics.create(name, partitions, server.ids[name])
    groups: dict[str, ConsumerGroup] = {}
    consumer = Consumer({"bootstrap.servers": bootstraps[0], "group.id": "reader"})
    consumer.assign([TopicPartition("__consumer_offsets", 0, OFFSET_BEGINNING)])
    _, end = consumer.get_watermark_offsets(TopicPartition("__consumer_offsets", 0))
    seen = 0
    while seen < end:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        offset, key = message.offset(), message.key()
        assert offset is not None
        assert isinstance(key, bytes)
        seen = offset + 1
        if int.from_bytes(key[:2]) in RECORD_TYPES:
            record = decode_record(key, message.value())
            again = record.encode()
            assert again == (key, message.value())
            group = groups.setdefault(record.group_id, ConsumerGroup(record.group_id))
            group.replay(record)
    consumer.close()
    alive = [group for group in groups.values() if group.members]
    assert alive
    assert any(group.classic_members for group in alive)
    for group in alive:
        assert run(TopicHashes(topics).of_group(group.topics)) == group.metadata_hash


def test_clients_share_partitions_and_the_tool_shows_them(bootstraps: tuple[str, str]) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstraps[1]})
    for number in range(20):
        producer.produce("t0", b"%d" % number, partition=number % TOPICS["t0"])
    producer.flush(PATIENCE_S)
    config = {
        "bootstrap.servers": bootstraps[1], "group.id": "shared", "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    consumers = [Consumer(config), Consumer(config)]
    consumers[0].subscribe(["t0"])
    consumers[1].subscribe(["^t0$"])
    read: set[bytes] = set()

    def share_all() -> bool:
        for consumer in consumers:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                read.add(value)
        return len(read) == 20 and all(len(one.assignment()) == 2 for one in consumers)

    until(share_all)
    described = _tool(bootstraps[1], "--describe", "--group", "shared", "--members", "--verbose")
    shares = [line.split(":")[-1].strip() for line in described.splitlines() if "t0:" in line]
    assert [len(share.split(",")) for share in shares] == [2, 2]
    assert sorted(",".join(shares).split(",")) == ["0", "1", "2", "3"]
    assert "uniform" in _tool(bootstraps[1], "--describe", "--group", "shared", "--state")
    for consumer in consumers:
        consumer.close()
    ask = ["--bootstrap-server", bootstraps[1], "--topic", "t0", "--group", "java"]
    wanted = ["--from-beginning", "--max-messages", "20"]
    protocol = ["--consumer-property", "group.protocol=consumer"]
    output = java_tools.run_tool(java.CONSOLE_CONSUMER, [*ask, *wanted, *protocol])
    assert {line.encode() for line in output.splitlines() if line.isdigit()} == read
    offsets = _tool(bootstraps[1], "--describe", "--group", "java", "--offsets")
    assert [line.split()[3] for line in offsets.splitlines() if " t0 " in line] == ["5"] * 4


def _tool(bootstrap: str, *arguments: str) -> str:
    return java_tools.run_tool(java.CONSUMER_GROUPS, ["--bootstrap-server", bootstrap, *arguments])
