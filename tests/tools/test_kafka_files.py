"""The files with which a Kafka node starts: roles, listeners, voters. No test starts a node."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tools import java, java_tools
from tools.kafka import Cluster
from tools.kafka_files import (
    Node,
    Shape,
    format_nodes,
    make_nodes,
    new_cluster_id,
    write_properties,
)
from tools.process import Process, ProcessError


def properties(node: Node) -> dict[str, str]:
    pairs = (line.partition("=") for line in node.properties.read_text().splitlines())
    return {key: value for key, _, value in pairs}


def formats(shape: Shape, nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The storage tool's arguments behind ``format -t ID -c FILE``, a list a node."""
    ran: dict[str, list[str]] = {}

    def run_tool(main: str, arguments: list[str], *, version: str) -> str:
        assert (main, version, arguments[:3]) == (
            java.STORAGE,
            shape.version,
            ["format", "-t", "cluster"],
        )
        ran[arguments[4]] = arguments[5:]
        return ""

    monkeypatch.setattr(java_tools, "run_tool", run_tool)
    format_nodes(shape, "cluster", nodes, nodes)
    return [ran[str(node.properties)] for node in nodes]


def test_every_controller_of_a_dynamic_quorum_is_a_voter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = Shape("4.3.1", brokers=1, controllers=3)
    nodes = make_nodes(shape, tmp_path)
    assert [(node.node_id, node.roles) for node in nodes] == [
        (n, ("controller",)) for n in (1, 2, 3)
    ] + [(101, ("broker",))]
    voters = ",".join(
        f"{node.node_id}@{node.controller_address}:{node.directory_id}" for node in nodes[:3]
    )
    expected = [["--initial-controllers", voters]] * 3 + [["--no-initial-controllers"]]
    assert formats(shape, nodes, monkeypatch) == expected
    servers = ",".join(node.controller_address for node in nodes[:3])
    assert {properties(node)["controller.quorum.bootstrap.servers"] for node in nodes} == {servers}
    assert len({port for node in nodes for port in (node.broker_port, node.controller_port)}) == 8


def test_fewer_voters_than_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(
        "4.3.1",
        brokers=0,
        controllers=3,
        voters=1,
        format_arguments=("--feature", "kraft.version=1"),
    )
    nodes = make_nodes(shape, tmp_path)
    given = formats(shape, nodes, monkeypatch)
    assert [arguments[:3] for arguments in given] == [
        ["--feature", "kraft.version=1", "--initial-controllers"],
        *[["--feature", "kraft.version=1", "--no-initial-controllers"]] * 2,
    ]
    assert given[0][3] == f"1@{nodes[0].controller_address}:{nodes[0].directory_id}"


def test_static_voters_stand_in_the_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = Shape("4.1.2", brokers=1, controllers=0, static_voters=True)
    [node] = nodes = make_nodes(shape, tmp_path)
    assert formats(shape, nodes, monkeypatch) == [[]]
    values = properties(node)
    assert values["controller.quorum.voters"] == f"1@{node.controller_address}"
    assert values["process.roles"] == "broker,controller"
    assert "controller.quorum.bootstrap.servers" not in values


def test_protocols_directories_and_properties_of_a_node(tmp_path: Path) -> None:
    shape = Shape(
        "4.3.1",
        brokers=1,
        controllers=1,
        controller_protocol="SSL",
        log_dirs=2,
        properties={"a": "all", "b": "all"},
        node_properties=lambda node: {"b": f"of {node.node_id}"},
    )
    controller, broker = nodes = make_nodes(shape, tmp_path)
    assert properties(broker)["listener.security.protocol.map"] == "BROKER:PLAINTEXT,CONTROLLER:SSL"
    assert [properties(node)["log.dirs"].count(",") for node in nodes] == [0, 1]
    assert [(properties(node)["a"], properties(node)["b"]) for node in nodes] == [
        ("all", "of 1"),
        ("all", "of 101"),
    ]
    write_properties(shape, controller, nodes, {"b": "last"})
    assert properties(controller)["b"] == "last"


def test_a_broker_waits_for_the_leader_longer_than_the_voters_do(tmp_path: Path) -> None:
    name = "controller.quorum.fetch.timeout.ms"
    shape = Shape("4.3.1", brokers=2, controllers=1, properties={name: "1500"})
    controller, broker, other = nodes = make_nodes(shape, tmp_path)
    assert properties(controller)[name] == "1500"
    assert int(properties(broker)[name]) > 60_000
    write_properties(shape, other, nodes, {name: "2000"})
    assert properties(other)[name] == "2000"


def test_a_cluster_id_is_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([uuid.UUID(bytes=b"\xfb" + bytes(15)), uuid.UUID(bytes=b"\x01" * 16)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(found))
    assert new_cluster_id() == "AQEBAQEBAQEBAQEBAQEBAQ"


def quorum_of(tmp_path: Path, states: dict[int, str]) -> Cluster:
    """Controllers whose processes run, with these quorum-state files."""
    nodes = []
    for node_id, state in states.items():
        node = Node(node_id, ("controller",), tmp_path / str(node_id))
        node.metadata_log_dir.mkdir(parents=True)
        (node.metadata_log_dir / "quorum-state").write_text(state)
        node.process = Process("node", ["sleep", "60"], tmp_path / f"{node_id}.out")
        nodes.append(node)
    return Cluster(Shape("4.3.1", 0, len(nodes)), "cluster", nodes, tmp_path)


def test_the_leader_is_the_one_of_the_newest_epoch_while_it_runs(tmp_path: Path) -> None:
    states = {
        1: '{"leaderId": 2, "leaderEpoch": 4}',
        2: '{"leaderId": 2, "leaderEpoch": 4}',
        3: '{"leaderId": 1, "leaderEpoch": 3}',
    }
    cluster = quorum_of(tmp_path, states)
    try:
        leader = cluster.leader()
        assert leader is cluster.node(2)
        cluster.pause_node(leader)
        assert cluster.leader() is None
        cluster.resume_node(leader)
        assert cluster.leader() is leader
        cluster.kill_node(leader)
        assert cluster.leader() is None
        (cluster.node(3).metadata_log_dir / "quorum-state").write_text(
            '{"leaderId": 3, "leaderEpoch": 5}'
        )
        assert cluster.wait_for_leader(1) is cluster.node(3)
        (cluster.node(1).metadata_log_dir / "quorum-state").write_text(
            '{"leaderId": -1, "leaderEpoch": 6}'
        )
        with pytest.raises(ProcessError, match="no leader for 0 s"):
            cluster.wait_for_leader(0.05)
    finally:
        cluster.stop(kill=True)
    assert all(node.process is None for node in cluster.nodes)


def test_a_running_nodes_directory_is_not_wiped(tmp_path: Path) -> None:
    cluster = quorum_of(tmp_path, {1: "{}"})
    try:
        with pytest.raises(ProcessError, match="node 1 runs"):
            cluster.wipe_node(cluster.node(1))
    finally:
        cluster.stop(kill=True)
