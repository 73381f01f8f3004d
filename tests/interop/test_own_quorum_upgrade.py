"""Static voters are put into the log with Kafka's own tools, in a kwire quorum and in a Kafka
quorum.

kafka-features upgrades the quorum, kafka-metadata-quorum describes and changes its voters
afterwards, and kafka-dump-log reads the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.log.metadata.control_records import read_snapshot_head
from gateway.log.metadata.listing import list_directory
from kwire import Message
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tests.interop.admin_commands import Command
from tests.interop.clients import need_java
from tests.interop.own import create_by_java, dump, first_segment
from tests.interop.own_kafka import with_non_electable
from tests.interop.quorum import files_of, offsets_of, wait_for_segments
from tests.interop.test_quorum_observed import status
from tests.waiting import PATIENCE_S, until
from tools import java, java_tools
from tools.java import JavaError
from tools.java_tools import retried
from tools.kafka import Cluster, kafka
from tools.kafka_files import Node
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.process import lasting_ports
from tools.wire_client import WireClient

UPGRADE = ("upgrade", "--feature", "kraft.version=1")
#: Commands in a row, of which real Kafka must say the same.
COMMANDS: Sequence[Sequence[str]] = (
    ("upgrade", "--feature", "kraft.version=2"),
    ("upgrade", "--feature", "kraft.version=1", "--dry-run"),
    ("upgrade", "--feature", "kraft.version=1", "--feature", "group.version=7"),
    ("upgrade", "--release-version", "4.3", "--dry-run"),
    ("upgrade", "--release-version", "4.3"),
    UPGRADE,
    ("downgrade", "--feature", "kraft.version=0"),
    ("describe",),
)
_ID = re.compile(r"[\w-]{22}")


@pytest.fixture(scope="module")
def three() -> Iterator[OwnCluster]:
    """Three static voters."""
    need_java()
    with own_quorum(
        3, properties={**QUICK, "metadata.log.max.record.bytes.between.snapshots": "500"}
    ) as cluster:
        cluster.wait_for_leader()
        yield cluster


def features(cluster: Cluster, *arguments: str) -> str:
    return java_tools.run_tool(
        Command("features", ()).main_class,
        ["--bootstrap-controller", cluster.controllers, *arguments],
    )


def quorum(cluster: Cluster, *arguments: str, config: Path | None = None) -> str:
    where = [
        "--bootstrap-controller",
        cluster.controllers,
        *(("--command-config", str(config)) if config else ()),
    ]
    # The client asks a leader that has just resigned again and again for a minute: it looks for the
    # new one only after NOT_CONTROLLER, and DescribeQuorum has NOT_LEADER_OR_FOLLOWER.
    wait_for_agreement(cluster)
    return java_tools.run_tool(java.METADATA_QUORUM, [*where, *arguments], timeout_s=PATIENCE_S)


def wait_for_agreement(cluster: Cluster) -> None:
    """Return when all running controllers name the same leader, and it has itself for a voter: a
    voter that is removed while it leads does so until its removal is committed.

    Each must list it, too. Controllers register a moment after an election, and an admin client
    that is given no controller asks none again for a minute.
    """
    topic = TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[PartitionData()])

    def agreed() -> bool:
        running = [node for node in cluster.nodes if node.is_controller() and node.process]
        clusters = [ask(node, DescribeClusterRequest(endpoint_type=2), 1) for node in running]
        [leader] = {one.controller_id for one in clusters}
        listed = [{node.broker_id for node in one.brokers} for one in clusters]
        answer = ask(cluster.node(leader), DescribeQuorumRequest(topics=[topic]), 2)
        [partition] = answer.topics[0].partitions
        voters = {voter.replica_id for voter in partition.current_voters}
        return all(leader in known for known in (voters, *listed))

    until(agreed, "all controllers name the same leader, which is a voter")


def ask(node: Node, request: Message, version: int) -> Any:
    with WireClient(node.controller_address) as client:
        return client.call(request, version)


def voters(cluster: Cluster) -> dict[int, str]:
    """Directory ids of the voters in ``describe --status``; empty for static voters."""
    described = retried(lambda: quorum(cluster, "describe", "--status"))
    told = json.loads(status(described)["CurrentVoters"])
    assert all(one["endpoints"] for one in told)
    return {one["id"]: one["directoryId"] or "" for one in told}


def directory_of(node: Node) -> str:
    """The directory id in the node's meta.properties."""
    lines = (node.log_dir / "meta.properties").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["directory.id"]


def restart(cluster: OwnCluster, node: Node) -> None:
    """``kill -9``, then a configuration without voters."""
    cluster.kill_node(node)
    cluster.configure_node(node, {})
    cluster.start_node(node)
    cluster.wait_for_node(node)
    cluster.wait_for_leader()


def newcomer(cluster: OwnCluster) -> tuple[Node, Path]:
    """Another controller, not a voter yet, and the properties file that kafka-metadata-quorum
    needs to add it.
    """
    broker_port, controller_port = lasting_ports(2)
    node = Node(4, ("broker", "controller"), cluster.directory / "4", broker_port, controller_port)
    node.directory.mkdir()
    cluster.configure_node(node, {})
    cluster.format_node(node)
    cluster.nodes.append(node)
    values = {
        "process.roles": "controller",
        "node.id": "4",
        "log.dirs": str(node.log_dir),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://{node.controller_address}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    }
    config = node.directory / "as-kafka-has-it.properties"
    config.write_text(
        "".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8"
    )
    cluster.start_node(node)
    cluster.wait_for_node(node)
    return node, config


def test_static_voters_are_put_into_the_log(three: OwnCluster) -> None:
    assert set(voters(three)) == {1, 2, 3}
    with pytest.raises(JavaError, match=r"kraft\.version"):
        quorum(
            three,
            "remove-controller",
            "--controller-id",
            "1",
            "--controller-directory-id",
            directory_of(three.node(1)),
        )
    assert "kraft.version was upgraded to 1." in retried(lambda: features(three, *UPGRADE))
    assert re.search(r"kraft\.version .*FinalizedVersionLevel: 1", features(three, "describe"))
    ids = {node.node_id: directory_of(node) for node in three.nodes}
    assert voters(three) == ids
    dumped(three)
    three.static = False  # from here on files name no voters
    restart(three, three.wait_for_leader())
    for node in list(three.nodes):
        restart(three, node)
    assert voters(three) == ids
    assert {node.quorum_state()["data_version"] for node in three.nodes} == {1}
    node, config = newcomer(three)
    retried(lambda: quorum(three, "add-controller", config=config))
    gone = three.wait_for_leader()
    removal = (
        "remove-controller",
        "--controller-id",
        str(gone.node_id),
        "--controller-directory-id",
        directory_of(gone),
    )
    retried(lambda: quorum(three, *removal))
    left = {**ids, 4: directory_of(node)}
    del left[gone.node_id]
    assert voters(three) == left
    three.wait_for_leader()
    create_by_java(node.broker_address, "written-by-another-quorum")
    wait_for_snapshot(node, left)
    restart(three, node)
    assert voters(three) == left


def wait_for_snapshot(node: Node, named: dict[int, str]) -> None:
    """Return when the node's newest snapshot has these voters."""

    def newest() -> tuple[int, dict[int, str]]:
        found = max(list_directory(str(node.metadata_log_dir)).snapshots, default=None)
        if found is None:
            return 0, {}
        version, head = read_snapshot_head(node.metadata_log_dir, found)
        voters = [] if head is None else head.voters
        return version, {row.voter_id: str(row.voter_directory_id) for row in voters}

    until(newest, f"a snapshot of node {node.node_id} with its voters", (1, named).__eq__)


def dumped(cluster: OwnCluster) -> None:
    """kafka-dump-log reads the two control records, the same in every log, and finds all CRCs
    right. The log of one node may begin with a snapshot: a busy machine lets it join late.
    """
    _, end = offsets_of(cluster.nodes[0].broker_address)
    found = []
    whole = [node for node in cluster.nodes if first_segment(node).exists()]
    assert len(whole) >= 2
    for node in whole:
        rows = [
            line
            for line in dump(node)
            if line.startswith("| offset:") and int(line.split()[2]) < end
        ]
        found.append([line.partition("headerKeys: [] ")[2] for line in rows if "KRaftV" in line])
    assert all(one == found[0] for one in found)
    [version, named] = found[0]
    assert json.loads(version.removeprefix("KRaftVersion ")) == {"version": 0, "kRaftVersion": 1}
    rows = json.loads(named.removeprefix("KRaftVoters "))["voters"]
    assert {row["voterId"]: row["voterDirectoryId"] for row in rows} == {
        node.node_id: directory_of(node) for node in cluster.nodes
    }
    assert all(
        row["kRaftVersionFeature"] == {"minSupportedVersion": 0, "maxSupportedVersion": 1}
        for row in rows
    )


def answers(cluster: Cluster) -> list[str]:
    """The output of every command, without values that differ between any two clusters."""
    retried(lambda: features(cluster, "upgrade", "--feature", "kraft.version=1", "--dry-run"))
    told = []
    for command in COMMANDS:
        try:
            text = features(cluster, *command)
        except JavaError as refused:
            text = str(refused).partition(":\n")[2]
        # kwire supports newer levels of some features than Kafka 4.3.1.
        varying = (
            r"Epoch: \d+|Local controller \d+|versions \d+-\d+"
            r"|SupportedMaxVersion: .*?(?= FinalizedVersionLevel)"
        )
        told.append(re.sub(varying, "N", " ".join(text.split())))
    named = status(quorum(cluster, "describe", "--status"))["CurrentVoters"]
    return [*told, _ID.sub("ID", re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", named))]


def test_non_electable_kwire_voter_follows_the_upgrade_of_kafka_controllers(tmp_path: Path) -> None:
    """The kwire voter registers with Kafka's leader, follows the upgrade, and votes by its
    directory id when that leader is killed.
    """
    need_java()
    with with_non_electable(tmp_path) as cluster:
        retried(lambda: features(cluster, *UPGRADE))
        assert voters(cluster) == {node.node_id: directory_of(node) for node in cluster.nodes}
        leader = cluster.wait_for_leader()
        cluster.kill_node(cluster.non_electable)
        cluster.start_node(cluster.non_electable)
        cluster.wait_for_node(cluster.non_electable)
        [other] = [node for node in cluster.real if node is not leader]
        wait_for_segments(other, files_of(leader)[-1].last_offset + 1)
        cluster.kill_node(leader)
        assert cluster.wait_for_leader() is other
        assert cluster.non_electable.quorum_state()["data_version"] == 1
        wait_for_segments(cluster.non_electable, files_of(other)[-1].last_offset + 1)


def test_kafka_features_prints_the_same_for_a_kafka_quorum() -> None:
    need_java()
    with own_quorum(3, properties=QUICK) as cluster:
        cluster.wait_for_leader()
        kwires = answers(cluster)
    with kafka(brokers=0, controllers=3, static_voters=True) as real:
        real.wait_for_leader()
        kafkas = answers(real)
    for command, one, other in zip((*COMMANDS, "status"), kwires, kafkas, strict=True):
        assert one == other, command
