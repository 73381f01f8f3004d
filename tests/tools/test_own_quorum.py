"""Our own quorum as processes: what its nodes are told, and that they come back after what is done
to them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.log.files.meta_properties import FILE_NAME, read_meta_properties
from tools.kafka_files import Node
from tools.own_quorum import own_quorum
from tools.process import ProcessError
from tools.tcp_proxy import Network


def told(node: Node) -> dict[str, str]:
    """The node's file."""
    lines = (line.partition("=") for line in node.properties.read_text().splitlines())
    return {key: value for key, _, value in lines}


def test_static_voters_are_in_every_file(tmp_path: Path) -> None:
    with own_quorum(
        3, directory=tmp_path, properties={"controller.quorum.fetch.timeout.ms": "700"}, start=False
    ) as cluster:
        voters = ",".join(f"{node.node_id}@{node.controller_address}" for node in cluster.nodes)
        for node in cluster.nodes:
            values = told(node)
            assert (values["node.id"], values["controller.quorum.voters"]) == (
                str(node.node_id),
                voters,
            )
            assert values["controller.quorum.fetch.timeout.ms"] == "700"
            assert read_meta_properties(node.log_dir / FILE_NAME).cluster_id == cluster.cluster_id


def test_dynamic_voters_are_in_the_log(tmp_path: Path) -> None:
    with own_quorum(2, directory=tmp_path, static_voters=False, start=False) as cluster:
        for node in cluster.nodes:
            values = told(node)
            assert "controller.quorum.voters" not in values
            assert values["controller.quorum.bootstrap.servers"] == cluster.controllers
            assert (
                str(read_meta_properties(node.log_dir / FILE_NAME).directory_id)
                == node.directory_id
            )


def test_a_wiped_dynamic_voter_is_another_node(tmp_path: Path) -> None:
    with own_quorum(2, directory=tmp_path, static_voters=False, start=False) as cluster:
        node = cluster.nodes[0]
        before = read_meta_properties(node.log_dir / FILE_NAME)
        cluster.wipe_node(node)
        after = read_meta_properties(node.log_dir / FILE_NAME)
        assert (after.cluster_id, after.node_id) == (before.cluster_id, before.node_id)
        assert after.directory_id != before.directory_id


def test_behind_proxies_nodes_know_each_other_by_these_alone(tmp_path: Path) -> None:
    with own_quorum(2, directory=tmp_path, network=Network(), start=False) as cluster:
        assert cluster.network is not None
        for node in cluster.nodes:
            values, proxy = told(node), cluster.network.address(node.node_id)
            assert f"{node.node_id}@{proxy}" in values["controller.quorum.voters"].split(",")
            assert f"CONTROLLER://{proxy}" in values["advertised.listeners"]
            assert node.controller_address not in values["controller.quorum.voters"]


def test_a_node_is_killed_paused_wiped_and_comes_back(tmp_path: Path) -> None:
    with own_quorum(1, directory=tmp_path, formatted=True) as cluster:
        [node] = cluster.nodes
        assert cluster.leader() is node
        cluster.pause_node(node)
        assert cluster.leader() is None
        cluster.resume_node(node)
        with pytest.raises(ProcessError, match="stop it before"):
            cluster.wipe_node(node)
        before = read_meta_properties(node.log_dir / FILE_NAME)
        cluster.kill_node(node)
        cluster.start_node(node)
        cluster.wait_for_node(node)
        assert read_meta_properties(node.log_dir / FILE_NAME) == before
        cluster.stop_node(node)
        assert node.output().count('"event": "ready"') == 2


def test_failed_start_of_a_node_is_reported_with_its_output(tmp_path: Path) -> None:
    with (
        pytest.raises(ProcessError, match=r"ended with 2:[^$]*fetch\.timeout"),
        own_quorum(
            1, directory=tmp_path, properties={"controller.quorum.fetch.timeout.ms": "soon"}
        ),
    ):
        pytest.fail("it started")
