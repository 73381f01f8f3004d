"""Kafka's tools on a kwire quorum: kafka-metadata-quorum and ``kwire quorum`` describe it from
every node; kafka-dump-log and kafka-metadata-shell read its log.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.clients import need_java
from tests.interop.own import create_by_java, dump
from tests.interop.quorum import offsets_of
from tests.interop.test_own_snapshots import shell
from tests.interop.test_quorum_observed import replication, run, status
from tools import java, java_tools
from tools.kafka_files import Node
from tools.own_quorum import QUICK, OwnCluster, own_quorum


@pytest.fixture(scope="module")
def three() -> Iterator[OwnCluster]:
    need_java()
    with own_quorum(3, properties=QUICK) as cluster:
        cluster.wait_for_leader()
        create_by_java(cluster.bootstrap, "described")
        yield cluster


def test_kafka_metadata_quorum_describes_every_node(three: OwnCluster) -> None:
    """``describe --status`` and ``--replication`` at each of three nodes, by both kinds of
    bootstrap: they say the same.
    """
    leader = three.wait_for_leader()
    for where in wheres(three):
        told = status(java_tools.run_tool(java.METADATA_QUORUM, [*where, "describe", "--status"]))
        assert (told["ClusterId"], told["LeaderId"]) == (three.cluster_id, str(leader.node_id)), (
            where
        )
        assert {one["id"] for one in json.loads(told["CurrentVoters"])} == {1, 2, 3}, where
        assert int(told["HighWatermark"]) > 0, where
        rows = replication(
            java_tools.run_tool(java.METADATA_QUORUM, [*where, "describe", "--replication"])
        )
        check_rows(rows, leader)


def test_kwire_quorum_describe_prints_the_same(three: OwnCluster) -> None:
    leader = three.wait_for_leader()
    for kind, address in wheres(three):
        told = status(run("quorum", "describe", "-o", "text", "--status", kind, address))
        assert (told["ClusterId"], told["LeaderId"]) == (three.cluster_id, str(leader.node_id))
        check_rows(
            replication(run("quorum", "describe", "-o", "text", "--replication", kind, address)),
            leader,
        )


def wheres(cluster: OwnCluster) -> list[tuple[str, str]]:
    return [
        (kind, address)
        for node in cluster.nodes
        for kind, address in (
            ("--bootstrap-server", node.broker_address),
            ("--bootstrap-controller", node.controller_address),
        )
    ]


def check_rows(rows: list[dict[str, str]], leader: Node) -> None:
    assert {(int(row["NodeId"]), row["Status"]) for row in rows} == {
        (number, "Leader" if number == leader.node_id else "Follower") for number in (1, 2, 3)
    }
    assert all(0 <= int(row["Lag"]) < 50 for row in rows)


def test_kafka_dump_log_reads_the_log(three: OwnCluster) -> None:
    """kafka-dump-log decodes every record of each node's segment, finds all CRCs right, and says
    the same of all three.
    """
    _, end = offsets_of(three.nodes[0].broker_address)
    found = []
    for node in three.nodes:
        lines = dump(node)
        assert not [line for line in lines if "rror" in line or "ould not" in line]
        found.append(
            [line for line in lines if line.startswith("| offset:") and int(line.split()[2]) < end]
        )
    assert [int(line.split()[2]) for line in found[0]] == list(range(end))
    assert found[0] == found[1] == found[2]


def test_kafka_metadata_shell_loads_the_log(three: OwnCluster, tmp_path: Path) -> None:
    """A copy of the directory: the shell takes the lock of the directory, which a running kwire
    node holds, as a Kafka node does.
    """
    segment = Path(shutil.copy(three.nodes[0].metadata_log_dir / f"{0:020d}.log", tmp_path))
    assert "described" in shell(segment)
