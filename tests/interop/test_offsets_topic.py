"""Groups of kwire and of Kafka have the same records: Kafka's tools read the ``__consumer_offsets``
of kwire, and each goes on with the partition of the other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from kwire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.sync_group_request import SyncGroupRequest
from tests.interop.clients import need_clients
from tools import java, java_tools
from tools.gateway_process import gateway
from tools.kafka import Node, kafka
from tools.wire_client import WireClient

FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
TOPIC = "data"
PARTITION = "__consumer_offsets-0"
#: A classic member (0) in generation 1, and one of KIP-848 (1), in a group of epoch 2.
MIXED = [(0, 1, 2, "static"), (1, 2, 2, None)]
CLASSIC = ("PreparingRebalance", ["static"])


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
    lines = java_tools.run_tool(java.CONSUMER_GROUPS, arguments).splitlines()
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


def make_mixed(bootstrap: str, group: str) -> None:
    """Make a group with a member of each protocol, which was a classic one."""
    subscription = b"\0\3" + ConsumerProtocolSubscription(topics=[TOPIC]).encode(3)
    with WireClient(bootstrap) as client:
        join = JoinGroupRequest(
            group_id=group, group_instance_id="static", session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )  # fmt: skip
        joined = client.call(join, 9)
        assert joined.error_code == 0
        beat = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="new", member_epoch=0, rebalance_timeout_ms=300_000,
            subscribed_topic_names=[TOPIC], topic_partitions=[],
        )  # fmt: skip
        synced = SyncGroupRequest(
            group_id=group, member_id=joined.member_id, group_instance_id="static",
            generation_id=joined.generation_id, protocol_type="consumer", protocol_name="range",
        )  # fmt: skip
        assert client.call(synced, 5).error_code == 0
        assert client.call(beat, 1).error_code == 0


def mixed(bootstrap: str, group: str) -> list[tuple[int, int, int, str | None]]:
    """Type, epoch and instance id of the members of such a group, with the group's epoch."""
    with WireClient(bootstrap) as client:
        (found,) = client.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    return sorted(
        (one.member_type, one.member_epoch, found.group_epoch, one.instance_id)
        for one in found.members
    )


def leave_alone(bootstrap: str, group: str) -> tuple[str, list[str | None]]:
    """The state and the members of such a group when the member of KIP-848 has left."""
    leaving = ConsumerGroupHeartbeatRequest(group_id=group, member_id="new", member_epoch=-1)
    with WireClient(bootstrap) as client:
        assert client.call(leaving, 1).error_code == 0
        (found,) = client.call(DescribeGroupsRequest(groups=[group]), 6).groups
    return found.group_state, [one.group_instance_id for one in found.members]


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
        make_mixed(server.bootstrap, "mixed-of-kwire")
        assert mixed(server.bootstrap, "mixed-of-kwire") == MIXED
    assert ("of-kwire", 5) in dumped(own / PARTITION / "00000000000000000000.log")
    with kafka() as cluster:
        create(cluster.bootstrap)
        commit(cluster.bootstrap, "of-kafka", 7)
        make_mixed(cluster.bootstrap, "mixed-of-kafka")
        assert mixed(cluster.bootstrap, "mixed-of-kafka") == MIXED
        (node,) = cluster.nodes
        cluster.stop_node(node)
        exchange(own / PARTITION, log_of(node), tmp_path / "scratch")
        cluster.start_node(node)
        cluster.wait_for_node(node)
        # While it loads the partition there is no group yet.
        found = java_tools.retried(lambda: _of(cluster.bootstrap, "of-kwire"))
        assert found == "5"
        assert mixed(cluster.bootstrap, "mixed-of-kwire") == MIXED
        assert leave_alone(cluster.bootstrap, "mixed-of-kwire") == CLASSIC
        commit(cluster.bootstrap, "of-kwire", 6)
        with gateway(*options(own)) as server:
            assert committed(server.bootstrap) == {"of-kafka": 7}
            commit(server.bootstrap, "of-kafka", 8)
            assert committed(server.bootstrap) == {"of-kafka": 8}
            assert mixed(server.bootstrap, "mixed-of-kafka") == MIXED
            assert leave_alone(server.bootstrap, "mixed-of-kafka") == CLASSIC
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
