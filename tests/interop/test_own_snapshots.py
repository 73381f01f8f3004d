"""Kafka reads snapshots that kwire wrote: its dump and its shell, and a controller that starts
on one.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.log.files.disk import Disk
from gateway.log.metadata.snapshot_writer import SnapshotWriter
from gateway.sources.metadata_loader import MetadataLoader
from gateway.sources.snapshot_generator import SnapshotGenerator, SnapshotSettings, Written
from kwire.cluster import Image
from kwire.jars.maven import resolve
from kwire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.sources.test_snapshot_generator import before
from tests.interop.clients import need_java
from tests.interop.quorum import make_topics
from tests.kwire.cluster.kafka_state import state_of
from tests.shared import needs_shared
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.admin import Admin
from tools.kafka import Cluster, Node, kafka

_SHELL = "org.apache.kafka.shell.MetadataShell"
_CONFIGS = "kafka.admin.ConfigCommand"
_TOPIC, _SCRAM_SHA_256 = 2, 1


def write(directory: Path, high_watermark: int) -> Written:
    def new_writer(snapshot_id: SnapshotId) -> SnapshotWriter:
        return SnapshotWriter(Disk(), directory, snapshot_id)

    snapshots = SnapshotGenerator(directory, SnapshotSettings(), new_writer, now=0.0)
    written = snapshots.write(high_watermark, 0, 0.0)
    assert written is not None, snapshots.problem
    return written


# --- its tools


def dump(path: Path) -> tuple[Counter[str], list[str]]:
    """The output of kafka-dump-log: payloads with their counts, and the lines of batches."""
    lines = java_tools.run_tool(
        java.DUMP_LOG_SEGMENTS, ["--files", str(path), "--cluster-metadata-decoder"]
    ).splitlines()
    payloads: Counter[str] = Counter()
    for line in lines:
        if " payload: " in line:
            payloads[line.split(" payload: ")[1]] += 1
        elif line.startswith("| offset:"):
            payloads[line.split(" sequence: ")[1].partition(" ")[2]] += 1
    return payloads, [line for line in lines if line.startswith("baseOffset:")]


def shell(path: Path) -> str:
    """The tree of kafka-metadata-shell, which answers before it has loaded anything unless it
    gets time.
    """
    jars = {
        jar.name: jar
        for jar in (
            *java.class_path(),
            *resolve([f"org.apache.kafka:kafka-shell:{java.KAFKA_VERSION}"], transitive=True),
        )
    }
    class_path = os.pathsep.join(map(str, jars.values()))
    for patience_s in (1, 3, 10):
        process = subprocess.Popen(
            [java.java(), *java.QUICK_START, "-cp", class_path, _SHELL, "--snapshot", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            time.sleep(patience_s)
            tree, _ = process.communicate("tree /image\nexit\n", timeout=PATIENCE_S)
        finally:
            process.kill()
        if "acls:" in tree and "offset -1, epoch -1" not in tree:
            return tree[tree.index("acls:") :]
    raise AssertionError(f"the shell read nothing of {path}: {tree}")


@needs_shared
def test_kafkas_tools_print_the_same_for_kwires_snapshot_and_kafkas(
    logs: Any, tmp_path: Path
) -> None:
    """Both snapshots are of one state: a dynamic quorum with every record type."""
    need_java()
    source: Path = logs("p-quorum") / "nodes" / "4" / "__cluster_metadata-0"
    snapshot = SnapshotId(2346, 4)
    before(source, snapshot, tmp_path / "log")
    assert write(tmp_path / "log", snapshot.end_offset).snapshot_id == snapshot
    kwires, kafkas = tmp_path / "log" / snapshot.file_name, source / snapshot.file_name
    (our_records, our_batches), (its_records, its_batches) = dump(kwires), dump(kafkas)
    assert without_voters(our_records) == without_voters(its_records) and our_records.total() > 300
    assert len(our_batches) == len(its_batches) and all(
        "isvalid: true" in line for line in our_batches
    )
    our_tree, its_tree = (shell(path).splitlines() for path in (kwires, kafkas))
    differing = [(mine, its) for mine, its in zip(our_tree, its_tree, strict=True) if mine != its]
    assert len(our_tree) > 1000
    assert all(mine.lstrip().startswith("offset 354, epoch 4, time ") for mine, _ in differing), (
        differing
    )


def without_voters(records: Counter[str]) -> Counter[str]:
    """Compared without voters, which have no order, and times, because Kafka's batches have the
    time of writing.
    """
    return Counter({text: count for text, count in records.items() if "KRaftVoters" not in text})


# --- a controller


@pytest.fixture(params=[False, True], ids=["dynamic voters", "static voters"])
def combined(request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, Node]]:
    """A Kafka node that is broker and controller, with some metadata."""
    need_java()
    with kafka(static_voters=request.param) as cluster:
        make_topics(cluster, [f"topic-{number}" for number in range(3)])
        retention = AlterableConfig(name="retention.ms", config_operation=0, value="4711")
        of_topic = AlterConfigsResource(
            resource_type=_TOPIC, resource_name="topic-1", configs=[retention]
        )
        ann = ScramCredentialUpsertion(
            name="ann",
            mechanism=_SCRAM_SHA_256,
            iterations=4096,
            salt=b"s" * 16,
            salted_password=b"p" * 32,
        )
        with Admin([cluster.bootstrap]) as admin:
            admin.send(IncrementalAlterConfigsRequest(resources=[of_topic]))
            admin.send(AlterUserScramCredentialsRequest(upsertions=[ann]))
            admin.send(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="topic-0")], timeout_ms=30_000)
            )
        yield cluster, cluster.nodes[0]


def end_of(directory: Path) -> int:
    """The end offset of a log without writers."""
    from gateway.log.reading.follower import DirectoryFollower

    follower = DirectoryFollower(str(directory), snapshot_prefix=False)
    while follower.step():
        pass
    assert follower.view is not None
    return follower.view.end_offset


def image_of(directory: Path, high_watermark: int) -> Image:
    keeper = MetadataLoader(directory)
    while keeper.decode_step(high_watermark):
        keeper.apply_step()
    keeper.apply_step()
    assert keeper.loaded and not keeper.skipped
    return keeper.image


def test_kafka_controller_starts_on_kwires_snapshot_alone(combined: tuple[Cluster, Node]) -> None:
    """kwire's snapshot replaces the whole log: cluster and voters are the same, and the cluster
    can be changed.
    """
    cluster, node = combined
    cluster.stop_node(node)
    directory = node.metadata_log_dir
    end = end_of(directory)
    state = state_of(image_of(directory, end))
    written = write(directory, end)
    for path in (
        *directory.glob("*.log"),
        *directory.glob("*index"),
        *directory.glob("*.checkpoint"),
    ):  # as in docs/snapshots.md
        if path.name != written.snapshot_id.file_name:
            path.unlink()
    cluster.start_node(node)
    cluster.wait_for_node(node)
    assert cluster.tool(java.TOPICS, ["--list"]).split() == ["topic-1", "topic-2"]
    described = cluster.tool(java.TOPICS, ["--describe", "--topic", "topic-1"])
    assert "PartitionCount: 4" in described and "retention.ms=4711" in described
    assert "SCRAM-SHA-256" in cluster.tool(_CONFIGS, ["--describe", "--entity-type", "users"])
    cluster.tool(java.TOPICS, ["--create", "--topic", "after", "--partitions", "1"])
    status = cluster.tool(java.METADATA_QUORUM, ["describe", "--status"])
    assert node.controller_address in status
    assert node.directory_id in status, (
        "the voters of a dynamic quorum stand in the snapshot, with their directories"
    )
    cluster.stop_node(node)
    segments = sorted(path.name for path in directory.glob("*.log"))
    assert segments[0] == f"{end:020d}.log", "its log goes on where our snapshot ends"
    assert "after" in image_of(directory, end_of(directory)).topic_ids
    lost = {json.loads(row)[0] for row in state - state_of(image_of(directory, end_of(directory)))}
    assert lost <= {
        "REGISTER_BROKER_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "PARTITION_RECORD",
        "PRODUCER_IDS_RECORD",
    }, "what a restart changes in a cluster, and nothing else"
