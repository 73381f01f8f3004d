"""Kafka's own command line tools against the handlers: their output, and the reason of a refused
change.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.handlers.refusals import REASON
from tests.gateway.handlers.mini_server import MiniServer, serving
from tests.gateway.handlers.world import CLUSTER_ID, NODE
from tools import java, java_tools

pytestmark = pytest.mark.interop

TOPICS, QUORUM = "TopicCommand", "MetadataQuorumCommand"
CONFIGS = "kafka.admin.ConfigCommand"
NAME = "__cluster_metadata"


@pytest.fixture(scope="module")
def server() -> Iterator[MiniServer]:
    try:
        java.class_path()
    except java.JavaError as error:
        pytest.skip(f"Kafka's tools are not to be had here: {error}")
    with serving() as server:
        yield server


def run(server: MiniServer, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tool's outcome; none may take the minute that a client goes on asking for when an error
    is retriable.
    """
    main = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
    where = ["--bootstrap-server", f"127.0.0.1:{server.port}"]
    # This one alone wants it behind its command, which others want last.
    behind = tool == "ClusterTool"
    words = [*arguments, *where] if behind else [*where, *arguments]
    return java_tools.run(main, words, timeout_s=30)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (
            QUORUM,
            ("describe", "--status"),
            ["LeaderId:               7", "HighWatermark:          1057", CLUSTER_ID],
        ),
        (QUORUM, ("describe", "--replication"), ["Leader"]),
        (TOPICS, ("--list",), [NAME]),
        (TOPICS, ("--describe",), ["AAAAAAAAAAAAAAAAAAAAAQ", f"Leader: {NODE}", f"Isr: {NODE}"]),
        (
            CONFIGS,
            ("--describe", "--all", "--topic", NAME),
            ["cleanup.policy=delete", "retention.ms=-1"],
        ),
        (
            CONFIGS,
            ("--describe", "--all", "--broker", str(NODE)),
            ["socket.request.max.bytes=16777216"],
        ),
        (CONFIGS, ("--describe", "--entity-type", "users"), []),
        (CONFIGS, ("--describe", "--entity-type", "topics"), [NAME]),
        (CONFIGS, ("--describe", "--entity-type", "brokers"), [f"broker {NODE}"]),
        (CONFIGS, ("--describe", "--entity-type", "client-metrics"), []),
        ("reassign.ReassignPartitionsCommand", ("--list",), ["No partition reassignments found"]),
        ("LogDirsCommand", ("--describe",), ["/var/lib/kafka/__cluster_metadata-0"]),
        ("ClusterTool", ("cluster-id",), [CLUSTER_ID]),
        ("ClusterTool", ("list-endpoints",), ["unfenced"]),
        ("FeatureCommand", ("describe",), []),
        ("BrokerApiVersionsCommand", (), ["Fetch(1): 4 to 18 [usable: 18]"]),
        ("GetOffsetShell", ("--topic", NAME), [f"{NAME}:0:1057"]),
        ("GetOffsetShell", ("--topic", NAME, "--time", "earliest"), [f"{NAME}:0:0"]),
        ("GetOffsetShell", ("--topic", NAME, "--time", "max-timestamp"), [f"{NAME}:0:1056"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_tool_prints_what_it_asked_for(
    server: MiniServer, tool: str, arguments: tuple[str, ...], words: list[str]
) -> None:
    done = run(server, tool, *arguments)
    assert done.returncode == 0, done.stderr
    assert [word for word in words if word not in done.stdout] == [], done.stdout


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (TOPICS, ("--create", "--topic", "orders")),
        (TOPICS, ("--delete", "--topic", NAME)),
        (TOPICS, ("--alter", "--partitions", "3", "--topic", NAME)),
        (CONFIGS, ("--alter", "--topic", NAME, "--add-config", "retention.ms=1")),
        (
            CONFIGS,
            (
                "--alter",
                "--entity-type",
                "users",
                "--entity-name",
                "x",
                "--add-config",
                "producer_byte_rate=1",
            ),
        ),
        (
            CONFIGS,
            (
                "--alter",
                "--entity-type",
                "users",
                "--entity-name",
                "x",
                "--add-config",
                "SCRAM-SHA-256=[password=x]",
            ),
        ),
        ("LeaderElectionCommand", ("--election-type", "preferred", "--all-topic-partitions")),
        ("FeatureCommand", ("upgrade", "--feature", "metadata.version=30")),
        ("ClusterTool", ("unregister", "--id", "3")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_refused_change_ends_at_once_with_the_reason(
    server: MiniServer, tool: str, arguments: tuple[str, ...]
) -> None:
    done = run(server, tool, *arguments)
    assert done.returncode != 0
    assert REASON in done.stdout + done.stderr


def test_a_reassignment_is_refused_with_the_reason(server: MiniServer, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {"version": 1, "partitions": [{"topic": NAME, "partition": 0, "replicas": [NODE]}]}
        )
    )
    done = run(
        server,
        "reassign.ReassignPartitionsCommand",
        "--execute",
        "--reassignment-json-file",
        str(plan),
    )
    assert REASON in done.stdout


def test_tool_reports_that_acls_are_disabled(server: MiniServer) -> None:
    done = run(server, "AclCommand", "--list")
    assert "SecurityDisabledException" in done.stdout + done.stderr
