"""Real Kafka that lost its controllers leads again from what ``kwire rescue`` wrote."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kwire.metadata_log.file_names import parse_segment_name
from tests.interop.brokers import Producer, consume, fenced, partitions
from tests.interop.quorum import QUICK_ELECTIONS, make_topics, need_kafka
from tests.waiting import PATIENCE_S, until
from tools import java
from tools.gateway_process import KWIRE
from tools.kafka import Cluster, Node, kafka
from tools.kafka_files import write_properties
from tools.process import lasting_ports

pytestmark = pytest.mark.interop

RECORDS: Final = 500
TOPIC: Final = "orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three controllers and two brokers with a topic and records in it."""
    need_kafka()
    with kafka(brokers=2, controllers=3, properties=QUICK_ELECTIONS) as running:
        make_topics(running, [TOPIC])
        producer = Producer.start(running, TOPIC, RECORDS, 5000, tmp_path)
        sent, failed = producer.result()
        assert len(sent) == RECORDS and not failed
        yield running


def rescued(*arguments: object) -> dict[str, Any]:
    """Run ``kwire rescue``; return its JSON."""
    line = [*KWIRE, "rescue", *map(str, arguments), "-o", "json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"status": done.returncode}


def lose(cluster: Cluster, *nodes: Node) -> None:
    """Kill controllers, and remove their disks."""
    for node in nodes:
        cluster.kill_node(node)
        shutil.rmtree(node.log_dir)


def end_of(node: Node) -> int:
    """Bytes of all segments of a node's metadata log."""
    files = [
        one for one in node.metadata_log_dir.iterdir() if parse_segment_name(one.name) is not None
    ]
    return sum(one.stat().st_size for one in files)


def serves_again(cluster: Cluster) -> None:
    """Brokers are unfenced, old records are readable, and a new topic can be made and used."""
    until(
        lambda: fenced(cluster),
        "the brokers are unfenced",
        lambda told: set(told.values()) == {False},
    )
    assert len(consume(cluster, TOPIC, RECORDS)) == RECORDS
    make_topics(cluster, ["later"])
    until(
        lambda: partitions(cluster, "later"),
        "the new topic has leaders",
        lambda told: len(told) == 4 and all(one.leader > 100 for one in told),
    )


def test_the_survivor_of_a_static_quorum_leads_again_by_its_configuration(tmp_path: Path) -> None:
    """The voters are in the files: that of the survivor names it alone, the brokers' stay."""
    need_kafka()
    with kafka(brokers=1, controllers=3, static_voters=True, properties=QUICK_ELECTIONS) as cluster:
        make_topics(cluster, [TOPIC])
        sent, _ = Producer.start(cluster, TOPIC, RECORDS, 5000, tmp_path).result()
        assert len(sent) == RECORDS
        survivor, *lost = [one for one in cluster.nodes if one.is_controller()]
        lose(cluster, *lost)
        cluster.kill_node(survivor)
        [broker] = [one for one in cluster.nodes if one.is_broker()]
        copies = [survivor.log_dir, broker.log_dir]
        verdict = rescued("inspect", *copies)["verdict"]
        assert verdict["loss"]["absent"] == [2, 3]
        voter = f"{survivor.node_id}@{survivor.controller_address}"
        found = rescued(
            "write", "--from", verdict["best"], "--to", survivor.log_dir, "--voter", voter,
            *(word for one in copies for word in ("--copy", one)), "--accept-loss", "--yes",
        )  # fmt: skip
        assert found["written"], found
        cluster.configure_node(survivor, {"controller.quorum.voters": voter})
        cluster.start_node(survivor)
        cluster.wait_for_node(survivor)
        serves_again(cluster)


def a_release(directory: Path) -> Path:
    """A directory with the start script of a Kafka release, for the jars that tests run."""
    script = directory / "kafka" / "bin" / "kafka-server-start.sh"
    script.parent.mkdir(parents=True)
    line = shlex.join(java.command(java.SERVER, []))
    script.write_text(f'#!/bin/sh\nexec {line} "$1"\n')
    script.chmod(0o755)
    return script.parent.parent


def test_the_survivor_of_three_controllers_leads_again(cluster: Cluster, tmp_path: Path) -> None:
    """Two disks are lost; the brokers' copies are given for the proof."""
    survivor, *lost = [one for one in cluster.nodes if one.is_controller()]
    brokers = [one for one in cluster.nodes if one.is_broker()]
    lose(cluster, *lost)
    cluster.kill_node(survivor)
    copies = [survivor.log_dir, *(one.log_dir for one in brokers)]
    verdict = rescued("inspect", *copies)["verdict"]
    assert verdict["loss"]["absent"] == [2, 3] and not verdict["loss"]["excluded"]
    options = [
        "--from", verdict["best"], "--to", survivor.log_dir,
        "--voter", f"{survivor.node_id}@{survivor.controller_address}",
        *(word for one in copies for word in ("--copy", one)),
    ]  # fmt: skip
    assert "--accept-loss" in str(rescued("write", *options)["refusals"])
    found = rescued("write", *options, "--accept-loss", "--yes")
    assert found["written"], found
    checked = rescued("check", survivor.log_dir, "--with-kafka", a_release(tmp_path))
    assert checked["passed"] and checked["kafkaLedEpoch"] == found["epoch"] + 1
    cluster.start_node(survivor)
    cluster.wait_for_node(survivor)
    serves_again(cluster)


@pytest.mark.parametrize("how", [(), ("--snapshot", "--drop-controllers")], ids=["log", "snapshot"])
def test_all_controllers_lost_come_back_from_a_brokers_copy(
    cluster: Cluster, how: tuple[str, ...]
) -> None:
    """The first controller is written anew into an empty directory, as the only voter."""
    controllers = [one for one in cluster.nodes if one.is_controller()]
    brokers = [one for one in cluster.nodes if one.is_broker()]
    lose(cluster, *controllers)
    [new, *_] = controllers
    verdict = rescued("inspect", *(one.log_dir for one in brokers))["verdict"]
    assert verdict["loss"]["absent"] == [1, 2, 3]
    found = rescued(
        "write", "--from", verdict["best"], "--to", new.log_dir,
        "--voter", f"{new.node_id}@{new.controller_address}",
        *(word for one in brokers for word in ("--copy", one.log_dir)),
        "--accept-loss", "--yes", *how,
    )  # fmt: skip
    assert found["written"], found
    write_properties(cluster.shape, new, cluster.nodes)
    cluster.start_node(new)
    cluster.wait_for_node(new)
    serves_again(cluster)


def test_controllers_whose_addresses_have_all_moved_elect_again(cluster: Cluster) -> None:
    """No disk is lost: the three copies exclude a loss, and all get the same log."""
    controllers = [one for one in cluster.nodes if one.is_controller()]
    for node in cluster.nodes:
        cluster.kill_node(node)
    for node, port in zip(controllers, lasting_ports(len(controllers)), strict=True):
        node.controller_port = port
    for node in cluster.nodes:
        write_properties(cluster.shape, node, cluster.nodes)
    copies = [one.log_dir for one in cluster.nodes]
    verdict = rescued("inspect", *copies)["verdict"]
    assert verdict["loss"]["excluded"] and verdict["loss"]["present"] == [1, 2, 3]
    found = rescued(
        "write", "--from", verdict["best"], "--yes",
        *(word for one in copies for word in ("--copy", one)),
        *(word for one in controllers for word in ("--to", one.log_dir)),
        *(
            word
            for one in controllers
            for word in ("--voter", f"{one.node_id}@{one.controller_address}")
        ),
    )  # fmt: skip
    assert found["written"], found
    for node in sorted(cluster.nodes, key=Node.is_controller, reverse=True):
        cluster.start_node(node)
    for node in cluster.nodes:
        cluster.wait_for_node(node)
    serves_again(cluster)
    cluster.kill_node(cluster.wait_for_leader())
    make_topics(cluster, ["without-one"])
