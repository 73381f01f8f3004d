"""``kwire format`` and ``kafka-storage format`` write the same files, and a node of each starts
on the other's directory.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.log.files.meta_properties import read_meta_properties
from gateway.log.metadata.formatting import BOOTSTRAP_FILE
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.metadata.stored_facts import Election
from gateway.log.partition.log_settings import LogSettings
from kwire.messages.leader_change_message import LeaderChangeMessage, Voter
from kwire.metadata_log.reader import read_log_file
from kwire.records import encode_batch, encode_control_record
from tests.interop.clients import need_java
from tools import java, java_tools
from tools.kafka import Cluster, Node, kafka
from tools.kafka_security import scram_arguments, secured

CLUSTER_ID = "QKPByyaYQyWJjkXGE6EEwA"
VOTERS = "1@127.0.0.1:19093:jejmYUtCT5uVMljQHNQ3AQ,2@localhost:19094:jejmYUtCT5uVMljQHNQ3Ag"
#: The newest level of the Kafka release that the tests run.
LEVEL = ("--release-version", java.KAFKA_VERSION.rpartition(".")[0])
_SALTED = (
    "salt=MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=,"
    "saltedpassword=mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="
)
_USERS = (
    *("--add-scram", f"SCRAM-SHA-256=[name=alice,iterations=8192,{_SALTED}]"),
    *("--add-scram", "SCRAM-SHA-512=[name=bob,password=x=y,salt=YWJj]"),
)
#: Words in the log of a controller that failed.
_TROUBLE = ("Exception", "FATAL", "Encountered fatal fault")
#: Kafka's controller refuses the registration of its own node, and says why, until it is active.
_EXPECTED = "NotControllerException"


def format_with_kwire(
    data_dir: Path, arguments: Sequence[str], *, node_id: int = 1, cluster_id: str = CLUSTER_ID
) -> None:
    line = [
        "format",
        "-t",
        cluster_id,
        "--node-id",
        str(node_id),
        "--data-dir",
        str(data_dir),
        *arguments,
    ]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output


def format_with_kafka(root: Path, arguments: Sequence[str], *, static: bool = False) -> Path:
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:19093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(root / "data"),
        "controller.quorum.voters" if static else "controller.quorum.bootstrap.servers": "1@"
        * static
        + "127.0.0.1:19093",
    }
    file = root / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    java_tools.run_tool(java.STORAGE, ["format", "-t", CLUSTER_ID, "-c", str(file), *arguments])
    return root / "data"


def contents(path: Path, unlike: Sequence[bytes] = ()) -> list[Any]:
    """Every batch without its times and what follows from them; ``unlike``: what may differ between
    two files.
    """
    found: list[Any] = []
    for header, records in read_log_file(path):
        plain = header._replace(crc=0, base_timestamp=0, max_timestamp=0)
        values = []
        for record in records:
            value = record.value or b""
            for one in unlike:
                value = value.replace(one, b"*" * len(one))
            values.append(
                (
                    record.offset,
                    record.key,
                    value[:2] if record.key == b"\0\0\0\x03" else value,
                    record.headers,
                )
            )
        found.append((plain, values))
    return found


@pytest.mark.parametrize(
    ("for_kafka", "for_kwire"),
    [
        (
            ["--standalone"],
            [
                "--standalone",
                *LEVEL,
                "--listeners",
                "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:19093",
            ],
        ),
        (["--initial-controllers", VOTERS], ["--initial-controllers", VOTERS, *LEVEL]),
        (["--no-initial-controllers"], ["--no-initial-controllers", *LEVEL]),
        (
            ["--standalone", "--release-version", "3.9-IV0"],
            ["--release-version", "3.9-IV0", "-I", VOTERS],
        ),
        (
            ["--no-initial-controllers", "-r", "4.1", "-f", "group.version=0"],
            ["-N", "-r", "4.1", "-f", "group.version=0"],
        ),
        (["--no-initial-controllers", *_USERS], ["-N", *LEVEL, *_USERS]),
    ],
    ids=[
        "standalone",
        "initial controllers",
        "no initial controllers",
        "3.9",
        "4.1 without groups",
        "users",
    ],
)
def test_formatted_files_are_those_of_kafka(
    for_kafka: Sequence[str], for_kwire: Sequence[str], tmp_path: Path
) -> None:
    need_java()
    kafkas, kwires = format_with_kafka(tmp_path, for_kafka), tmp_path / "kwire"
    format_with_kwire(kwires, for_kwire)
    assert contents(kwires / BOOTSTRAP_FILE) == contents(kafkas / BOOTSTRAP_FILE)
    meta = [read_meta_properties(one / "meta.properties") for one in (kafkas, kwires)]
    assert meta[0].cluster_id == meta[1].cluster_id and meta[0].node_id == meta[1].node_id
    if for_kafka[0] == "--initial-controllers":
        assert meta[0].directory_id == meta[1].directory_id
    if for_kafka[:1] == list(for_kwire[:1]):
        snapshots = [sorted(one.glob("**/*-*.checkpoint")) for one in (kafkas, kwires)]
        assert [one.name for one in snapshots[0]] == [one.name for one in snapshots[1]]
        ids = [bytes(one.directory_id or b"") for one in meta]
        for one, other in zip(*snapshots, strict=True):
            assert contents(one, ids) == contents(other, ids)
    for one in (kafkas, kwires):
        store = RaftStore.open(one, LogSettings(), node_id=1, cluster_id=CLUSTER_ID)
        stored = store.stored()
        assert (stored.election, stored.end_offset, len(stored.voters)) == (
            Election(0),
            0,
            len(stored.kraft_versions),
        )
        store.close()


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_kafka_and_kwire_start_on_each_others_directories(static: bool) -> None:
    need_java()
    with kafka(static_voters=static) as cluster:
        node = cluster.nodes[0]
        cluster.stop_node(node)
        shutil.rmtree(node.log_dir)
        voters = f"1@{node.controller_address}"
        own = (
            ["-c", str(_own_properties(node, voters))]
            if static
            else ["-I", f"{voters}:{node.directory_id}"]
        )
        format_with_kwire(node.log_dir, [*own, *LEVEL], cluster_id=cluster.cluster_id)
        start_with_kafka(cluster, node)
        cluster.tool(java.TOPICS, ["--create", "--topic", "first", "--partitions", "2"])
        cluster.stop_node(node)
        _lead_for_a_moment(node, cluster.cluster_id, static)
        start_with_kafka(cluster, node)
        assert cluster.tool(java.TOPICS, ["--list"]).split() == ["first"]
        cluster.tool(java.TOPICS, ["--create", "--topic", "second", "--partitions", "2"])
        cluster.stop_node(node)
        store = RaftStore.open(
            node.log_dir,
            LogSettings(),
            node_id=1,
            cluster_id=cluster.cluster_id,
            static_voters=(1,),
        )
        assert store.problems == []
        assert len(store.stored().epochs) >= 3
        store.close()


def test_kafka_reads_and_serves_the_users_of_kwire_format(tmp_path: Path) -> None:
    need_java()
    settings: dict[str, Any] = secured(
        tmp_path, "SASL_PLAINTEXT", mechanism="SCRAM-SHA-512"
    ).options()
    with kafka(**settings) as cluster:
        node = cluster.nodes[0]
        cluster.stop_node(node)
        shutil.rmtree(node.log_dir)
        voter = f"1@{node.controller_address}:{node.directory_id}"
        arguments = ["-I", voter, *LEVEL, *scram_arguments()]
        format_with_kwire(node.log_dir, arguments, cluster_id=cluster.cluster_id)
        written = node.log_dir / BOOTSTRAP_FILE
        dumped = java_tools.run_tool(
            java.DUMP_LOG_SEGMENTS, ["--files", str(written), "--cluster-metadata-decoder"]
        )
        assert dumped.count('"type":"USER_SCRAM_CREDENTIAL_RECORD"') == 4
        assert "isvalid: true" in dumped and "isvalid: false" not in dumped
        start_with_kafka(cluster, node)
        # The controllers' listener wants SASL: the tool logs in as one of the users.
        told = cluster.controller_tool(java.METADATA_QUORUM, ["describe", "--status"])
        assert re.search(r"LeaderId:\s+1\b", told)


def _own_properties(node: Node, voters: str) -> Path:
    file = node.directory / "kwire.properties"
    file.write_text(
        f"controller.quorum.voters={voters}\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://{node.controller_address}\n"
    )
    return file


def start_with_kafka(cluster: Cluster, node: Node) -> None:
    """Start Kafka's node, and look for trouble in its log."""
    cluster.start_node(node)
    cluster.wait_for_node(node)
    lines = (node.directory / "server.out").read_text().splitlines()
    # Without the frames of stack traces: methods of Java's have these words in their names.
    heads = [line for line in lines if not line.startswith("\tat ")]
    trouble = [line for line in heads if any(word in line for word in _TROUBLE)]
    assert not [line for line in trouble if _EXPECTED not in line]


def _lead_for_a_moment(node: Node, cluster_id: str, static: bool) -> None:
    """Append the records with which a kwire leader begins its epoch."""
    store = RaftStore.open(
        node.log_dir, LogSettings(), node_id=1, cluster_id=cluster_id, static_voters=(1,)
    )
    stored = store.stored()
    assert store.problems == []
    assert stored.election.leader_id == 1 and stored.election.epoch == stored.epochs[-1][0]
    assert stored.kraft_versions[-1][1] == 1 if not static else not stored.kraft_versions
    assert [[one.voter_id for one in record.voters] for _, record in stored.voters] == [[1]] * (
        0 if static else 2
    )
    epoch = stored.election.epoch + 1
    store.persist(epoch, 1, 1, store.directory_id, kraft_version=int(not static))
    change = LeaderChangeMessage(
        version=0, leader_id=1, voters=[Voter(voter_id=1)], granting_voters=[Voter(voter_id=1)]
    )
    record = encode_control_record(
        "LEADER_CHANGE", change, offset=stored.end_offset, timestamp=1_800_000_000_000
    )
    store.append(
        stored.end_offset, encode_batch([record], partition_leader_epoch=epoch, is_control=True)
    )
    assert store.flush() == stored.end_offset + 1
    store.set_high_watermark(stored.end_offset + 1)
    assert store.stored().election == Election(
        epoch, 1, 1, store.directory_id if not static else store.stored().election[3]
    )
    store.close()
