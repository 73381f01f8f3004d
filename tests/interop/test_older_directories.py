"""Directories that kwire 0.1.0 wrote: this kwire opens them with nothing lost, and Kafka opens the
metadata log of one afterwards.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kafka import KafkaConsumer, TopicPartition

from gateway.log.metadata.listing import list_directory
from kwire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.protocol import CLUSTER_METADATA_TOPIC
from tests.interop.clients import need_clients, need_java
from tests.interop.test_controller_admin_answers import NEWEST
from tests.waiting import until
from tools import java
from tools.archives import extract
from tools.kafka import kafka
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.wire_client import WireClient

DIRECTORIES: Final = Path(__file__).parents[1] / "data" / "directories-0.1.0"
_AUDIT_TOPIC: Final = "__cluster_metadata_audit"
_PROPERTIES: Final = {
    **QUICK,
    "metadata.log.max.record.bytes.between.snapshots": "2500",
    "metadata.log.segment.bytes": "8192",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class Said(NamedTuple):
    """The records that a client of 0.1.0 read from the first partition of a topic: offsets of the
    first and the last one, how many, and the SHA-256 of all.
    """

    first: int
    last: int
    records: int
    sha256: str


#: By number of nodes, by topic.
EXPECTED: Final = {
    1: {
        CLUSTER_METADATA_TOPIC: Said(
            3, 177, 175, "85a6e4e7ad0d2b583e29bd0d3dbc0d175b0fc730d03af08e62b1f175166b5410"
        ),
        _AUDIT_TOPIC: Said(
            0, 31, 32, "8fc3c03684f05815f2cf9699857cb40a4c1c3ed6a0df0c2e3b5d9e8890f196aa"
        ),
    },
    3: {
        CLUSTER_METADATA_TOPIC: Said(
            1, 183, 182, "4332a61b7a04f2deabb2e8ab022adf51b70278b7f54427cb5b61370acad2a908"
        ),
        _AUDIT_TOPIC: Said(
            0, 29, 30, "3402b64a251ed2312bcf0256eaf9753770c85265438844f06ad435d1e96821b0"
        ),
    },
}
#: The offset that each group committed last.
COMMITTED: Final = {f"group-{number}": 10 + number for number in range(3)}


@pytest.mark.parametrize("nodes", [1, 3])
def test_nothing_is_lost_when_directories_of_an_older_release_are_opened(
    nodes: int, tmp_path: Path
) -> None:
    need_clients()
    need_java()
    extract(DIRECTORIES / f"quorum-of-{nodes}.tar.xz", tmp_path)
    snapshots = {node: names_of_snapshots(tmp_path, node) for node in range(1, nodes + 1)}
    assert all(snapshots.values())
    with own_quorum(nodes, properties=_PROPERTIES, directory=tmp_path) as cluster:
        bootstrap = cluster.wait_for_leader().broker_address
        for topic, said in EXPECTED[nodes].items():
            assert read(bootstrap, topic, said) == said, topic
        assert committed(cluster) == COMMITTED
        again_after_a_restart(cluster, nodes)
    if nodes == 1:
        kafka_opens(tmp_path / "1" / "data")


def again_after_a_restart(cluster: OwnCluster, nodes: int) -> None:
    """The nodes are killed once they have written in the form of this release."""
    for node in cluster.nodes:
        cluster.kill_node(node)
        cluster.start_node(node)
        cluster.wait_for_node(node)
    bootstrap = cluster.wait_for_leader().broker_address
    for topic, said in EXPECTED[nodes].items():
        assert read(bootstrap, topic, said) == said, topic
    assert committed(cluster) == COMMITTED


def committed(cluster: OwnCluster) -> dict[str, int]:
    """The offset of each group: every node is the coordinator of the groups that came to it."""
    topic = OffsetFetchRequestTopic(name=CLUSTER_METADATA_TOPIC, partition_indexes=[0])
    found = dict.fromkeys(COMMITTED, -1)
    for node in cluster.nodes:
        with WireClient(node.broker_address) as client:
            for group in found:
                answer = client.call(OffsetFetchRequest(group_id=group, topics=[topic]), 7)
                [partition] = answer.topics[0].partitions
                found[group] = max(found[group], partition.committed_offset)
    return found


def kafka_opens(data: Path) -> None:
    """Kafka's node starts on a copy and lists the topics."""
    with kafka(version=NEWEST) as cluster:  # a quorum of one has formatted itself at its level
        node = cluster.nodes[0]
        cluster.stop_node(node)
        shutil.rmtree(node.log_dir)
        shutil.copytree(data, node.log_dir)
        # Its log may say that its broker was not registered yet when it asked.
        cluster.start_node(node)
        cluster.wait_for_node(node)
        listed = cluster.tool(java.TOPICS, ["--list"]).split()
        assert listed == sorted(f"topic-{number}" for number in range(30))


def names_of_snapshots(root: Path, node: int) -> Sequence[Any]:
    return list_directory(str(root / str(node) / "data" / "__cluster_metadata-0")).snapshots


def read(bootstrap: str, topic: str, said: Said) -> Said:
    """The records that a client reads now, up to the last one of then."""
    where = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    consumer.assign([where])
    consumer.seek(where, said.first)
    rows: list[Any] = []

    def complete() -> bool:
        for records in consumer.poll(500).values():
            rows.extend(
                (one.offset, one.timestamp, one.key, one.value, sorted(one.headers))
                for one in records
                if one.offset <= said.last
            )
        return bool(consumer.position(where) > said.last)

    until(complete, f"all records of {topic}")
    consumer.close()
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    return Said(rows[0][0], rows[-1][0], len(rows), digest)
