"""Groups of kwire and of Kafka have the same records: Kafka's tools read the ``__consumer_offsets``
of kwire, and each goes on with the partition of the other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.interop.clients import need_clients
from tools import java, java_tools
from tools.gateway_process import gateway
from tools.kafka import Node, kafka

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
TOPIC = "data"
PARTITION = "__consumer_offsets-0"


def commit(bootstrap: str, group: str, offset: int) -> None:
    """Commit an offset as the one member of a group."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    )
    while not consumer.assignment():
        consumer.poll(100)
    consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(offset, "why", -1)})
    consumer.close()


def committed(bootstrap: str) -> dict[str, int]:
    """The committed offset of each group, as Kafka's tool shows it."""
    arguments = ["--bootstrap-server", bootstrap, "--describe", "--offsets", "--all-groups"]
    lines = java_tools.run_tool(CONSUMER_GROUPS, arguments).splitlines()
    rows = [line.split() for line in lines if line.split()[1:3] == [TOPIC, "0"]]
    return {row[0]: int(row[3]) for row in rows}


def create(bootstrap: str) -> None:
    topic = ["--create", "--topic", TOPIC, "--partitions", "1", "--replication-factor", "1"]
    java_tools.run_tool(java.TOPICS, ["--bootstrap-server", bootstrap, *topic])


def options(data_dir: Path) -> Sequence[str]:
    own = ["--process-roles", "broker,controller", "--offsets-topic-num-partitions", "1"]
    return ["--data-dir", str(data_dir), *own]


def dumped(segment: Path) -> list[tuple[str, int]]:
    """Group and committed offset of each offset record, by Kafka's decoder."""
    said = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--files", str(segment), "--offsets-decoder"]
    )
    assert "isvalid: false" not in said
    found = []
    for line in said.splitlines():
        key, _, value = line.partition(" key: ")[2].partition(" payload: ")
        written = json.loads(value)["data"] if value.startswith("{") else {}
        if "offset" in written:
            found.append((json.loads(key)["data"]["group"], written["offset"]))
    return found


def exchange(one: Path, other: Path, scratch: Path) -> None:
    """Give each directory the segments of the other. Each keeps the id of its topic."""
    for source, target in ((one, scratch), (other, one), (scratch, other)):
        target.mkdir(exist_ok=True)
        for path in list(target.iterdir()):
            if path.name != "partition.metadata":
                path.unlink()
        for path in source.iterdir():
            if path.suffix == ".log":
                shutil.copy(path, target)


def log_of(node: Node) -> Path:
    return node.log_dir / PARTITION


def test_each_goes_on_with_the_offsets_of_the_other(tmp_path: Path) -> None:
    need_clients()
    own = tmp_path / "own"
    with gateway(*options(own)) as server:
        create(server.bootstrap)
        commit(server.bootstrap, "of-kwire", 5)
        assert committed(server.bootstrap) == {"of-kwire": 5}
        ask = ["--bootstrap-server", server.bootstrap, "--topic", "__consumer_offsets"]
        read = java_tools.run_tool(
            java.CONSOLE_CONSUMER,
            [*ask, "--from-beginning", "--formatter", FORMATTER, "--max-messages", "2"],
        )
        assert json.loads(read.splitlines()[0])["key"]["data"]["group"] == "of-kwire"
    assert ("of-kwire", 5) in dumped(own / PARTITION / "00000000000000000000.log")
    with kafka() as cluster:
        create(cluster.bootstrap)
        commit(cluster.bootstrap, "of-kafka", 7)
        (node,) = cluster.nodes
        cluster.stop_node(node)
        exchange(own / PARTITION, log_of(node), tmp_path / "scratch")
        cluster.start_node(node)
        cluster.wait_for_node(node)
        # While it loads the partition there is no group yet.
        found = java_tools.retried(lambda: _of(cluster.bootstrap, "of-kwire"))
        assert found == "5"
        commit(cluster.bootstrap, "of-kwire", 6)
        with gateway(*options(own)) as server:
            assert committed(server.bootstrap) == {"of-kafka": 7}
            commit(server.bootstrap, "of-kafka", 8)
            assert committed(server.bootstrap) == {"of-kafka": 8}
        # Back again, with what the other has added.
        cluster.stop_node(node)
        exchange(own / PARTITION, log_of(node), tmp_path / "scratch")
    with gateway(*options(own)) as server:
        assert committed(server.bootstrap) == {"of-kwire": 6}
        commit(server.bootstrap, "third", 9)
        assert committed(server.bootstrap) == {"of-kwire": 6, "third": 9}


def _of(bootstrap: str, group: str) -> str:
    found = committed(bootstrap)
    if group not in found:
        raise java.JavaError(f"not there: {found}")
    return str(found[group])
