"""Kafka's command line tools, connected to Kafka brokers, print the same under kwire
controllers as under Kafka controllers.

Kafka's tools then read the log that the kwire controllers wrote, and Kafka controllers take over
from them.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from tests.interop.admin_commands import COMMANDS, Command, files
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.own_kafka import complaints
from tests.interop.quorum import files_of
from tests.interop.test_own_snapshots import shell
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.kafka import FAST_START, Cluster, kafka
from tools.kafka_files import Node, Shape, write_properties
from tools.own_quorum import OwnCluster, own_quorum
from tools.real_brokers import real_brokers

#: Kafka's output -> kwire's, where they differ. kwire does not keep a broker that is no
#: longer a replica in the ELR; Kafka does for a partition whose ISR is below
#: ``min.insync.replicas``.
DELIBERATE = {
    "Replicas: 102 Isr: 102 Elr: 101 LastKnownElr:": "Replicas: 102 Isr: 102 Elr: LastKnownElr:",
    # Kafka 4.3.1's controller knows metadata.version up to 4.3-IV0, kwire's up to 4.4-IV2.
    "only supports versions 7-30": "only supports versions 7-33",
}
_AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_TOOL_S = PATIENCE_S
#: A controller answers a change before every broker has read it, and the next tool asks a broker.
_PUBLISH_S = 0.7
_CHANGE = re.compile(r"--(?:add|alter|create|delete|remove|execute|election-type)\b|grade --")
#: Two clusters of Java's and many tools: a machine that is busy with more takes its time.
pytestmark = pytest.mark.timeout(900)
#: Records of all areas, among others.
WRITTEN = {
    "ACCESS_CONTROL_ENTRY_RECORD",
    "BROKER_REGISTRATION_CHANGE_RECORD",
    "CLIENT_QUOTA_RECORD",
    "CONFIG_RECORD",
    "FEATURE_LEVEL_RECORD",
    "PARTITION_CHANGE_RECORD",
    "PARTITION_RECORD",
    "REGISTER_BROKER_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
    "REMOVE_TOPIC_RECORD",
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    "TOPIC_RECORD",
    "USER_SCRAM_CREDENTIAL_RECORD",
}


def run(command: Command, bootstrap: str, directory: Path) -> tuple[int, list[str]]:
    """Exit status, and what can be compared of what it printed."""
    arguments = [
        str(directory / one[1:]) if one.startswith("@") else one for one in command.line(bootstrap)
    ]
    done = java_tools.run(command.main_class, arguments, timeout_s=_TOOL_S, log_level="off")
    return done.returncode, command.comparable(done.stdout)


def compared(real: str, kwires: str, directory: Path) -> Iterator[str]:
    """Where the two clusters answer differently: command by command, both at a time."""
    for name, text in files().items():
        (directory / name).write_text(text)
    with ThreadPoolExecutor(2) as pool:
        for command in COMMANDS:
            expected, told = pool.map(
                lambda where, command=command: run(command, where, directory), (real, kwires)
            )
            if _CHANGE.search(str(command)):
                time.sleep(_PUBLISH_S)
            if meant(expected) != told:
                yield f"{command}\nKafka: {expected}\nkwire: {told}"


def meant(said: tuple[int, list[str]]) -> tuple[int, list[str]]:
    """The output expected of kwire where Kafka's is this."""
    status, lines = said
    for kafkas, instead in DELIBERATE.items():
        lines = [line.replace(kafkas, instead) for line in lines]
    return status, lines


@dataclass
class ToolsRun:
    """The result: the differences, and the stopped kwire nodes with the log that they wrote."""

    differences: list[str]
    own: OwnCluster


@pytest.fixture(scope="module")
def tools_run(tmp_path_factory: pytest.TempPathFactory) -> ToolsRun:
    need_java()
    directory = tmp_path_factory.mktemp("admin")
    with (
        kafka(brokers=2, controllers=3, properties=_AUTHORIZED) as real,
        own_quorum(
            3, static_voters=False, properties=_AUTHORIZED, directory=directory / "own"
        ) as own,
        real_brokers(own, 2, properties=_AUTHORIZED) as brokers,
    ):
        differences = list(compared(real.bootstrap, brokers.bootstrap, directory))
    return ToolsRun(differences, own)


def test_tools_print_the_same_under_kwire_and_kafka_controllers(tools_run: ToolsRun) -> None:
    FIGURES.append(
        f"admin tools: {len(COMMANDS)} commands, the same but for {len(DELIBERATE)} on purpose"
    )
    assert not tools_run.differences, "\n".join(tools_run.differences)


def test_kafka_dump_log_reads_the_log_of_kwire_controllers(tools_run: ToolsRun) -> None:
    """Every record decodes, every CRC is right, no offset is missing."""
    for node in tools_run.own.nodes:
        arguments = [
            "--files",
            str(node.metadata_log_dir / f"{0:020d}.log"),
            "--cluster-metadata-decoder",
        ]
        lines = java_tools.run_tool(java.DUMP_LOG_SEGMENTS, arguments).splitlines()
        assert all("isvalid: true" in line for line in lines if line.startswith("baseOffset:"))
        assert not [line for line in lines if "rror" in line or "ould not" in line]
        offsets = [int(line.split()[2]) for line in lines if line.startswith("| offset:")]
        assert offsets == list(range(len(offsets)))
        found = set(re.findall(r'payload: {"type":"(\w+)"', "\n".join(lines)))
        assert found >= WRITTEN, WRITTEN - found


def test_kafka_metadata_shell_loads_the_log_of_kwire_controllers(
    tools_run: ToolsRun, tmp_path: Path
) -> None:
    segment = shutil.copy(tools_run.own.nodes[0].metadata_log_dir / f"{0:020d}.log", tmp_path)
    tree = shell(Path(segment))
    assert all(
        name in tree
        for name in (
            "orders",
            "101",
            "102",
            "User:alice",
            "producer_byte_rate",
            "transaction.version",
        )
    )


def test_kafka_controllers_continue_the_log_of_kwire_controllers(
    tools_run: ToolsRun, tmp_path: Path
) -> None:
    """Two of three Kafka controllers on copies of the kwire nodes' directories. One leads,
    reads the whole log and continues it.
    """
    end = max(leader_end_on_disk(node) for node in tools_run.own.nodes)
    shape = Shape(
        java.KAFKA_VERSION, 0, 3, properties={**_AUTHORIZED, **tools_run.own.quorum_properties()}
    )
    nodes = [
        replace(node, roles=("controller",), directory=tmp_path / str(node.node_id))
        for node in tools_run.own.nodes
    ]
    cluster = Cluster(shape, tools_run.own.cluster_id, nodes[:2], tmp_path, FAST_START)
    for kwires, kafkas in zip(tools_run.own.nodes, cluster.nodes, strict=False):
        shutil.copytree(kwires.log_dir, kafkas.log_dir)
        write_properties(shape, kafkas, nodes)
    try:
        for node in cluster.nodes:
            cluster.start_node(node)
        for node in cluster.nodes:
            cluster.wait_for_node(node)
            node.running_process().wait_until(partial(has_read_its_log, node), _TOOL_S)
        leader = cluster.wait_for_leader()
        alter = [
            "--alter",
            "--entity-type",
            "topics",
            "--entity-name",
            "orders",
            "--add-config",
            "segment.ms=60000",
        ]
        # A controller that has not registered yet is not among those that an admin client is told.
        said = java_tools.retried(
            lambda: cluster.controller_tool("kafka.admin.ConfigCommand", alter)
        )
        assert "Completed" in said
        assert [line for node in cluster.nodes for line in complaints(node)] == []
        assert leader_end_on_disk(leader) > end
    finally:
        cluster.stop(kill=True)


def has_read_its_log(node: Node) -> bool:
    """True once a Kafka controller answers admin clients (KIP-919). Before that it logs an error
    for each of their requests.
    """
    return "initializing ControllerRegistrationsPublisher" in node.running_process().output_end(
        sys.maxsize
    )


def leader_end_on_disk(node: Node) -> int:
    """One past the last offset in a node's segments."""
    return files_of(node)[-1].last_offset + 1
