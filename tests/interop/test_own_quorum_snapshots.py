"""A Kafka controller starts on a kwire node's snapshot alone, and its own next snapshot holds
the same state.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.controller.features import SUPPORTED
from kwire.message import Message
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import create, made, offered
from tests.interop.broker_requests import ALL, UPGRADE, directory
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.own_kafka import complaints
from tests.interop.test_controller_admin_answers import AUTHORIZER
from tests.interop.test_controller_admin_log import write_all
from tests.interop.test_controller_token_answers import SECRET
from tests.interop.test_own_snapshots import dump, shell
from tests.interop.test_own_snapshots_live import image_of_snapshot, snapshots
from tests.kwire.cluster.kafka_state import state_of
from tests.waiting import until
from tools import java
from tools.consistency_checker.watch import leader_end
from tools.kafka import FAST_START, Cluster
from tools.kafka_files import Node, Shape, write_properties
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.wire_client import WireClient

#: The sessions of the simulated brokers, which send no heartbeats, must not expire.
_SETTINGS: Final = {**AUTHORIZER, **SECRET, "broker.session.timeout.ms": "3600000"}
_AREAS: Final = {
    "ACCESS_CONTROL_ENTRY_RECORD",
    "CLIENT_QUOTA_RECORD",
    "CONFIG_RECORD",
    "DELEGATION_TOKEN_RECORD",
    "FEATURE_LEVEL_RECORD",
    "PARTITION_RECORD",
    "PRODUCER_IDS_RECORD",
    "REGISTER_BROKER_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "TOPIC_RECORD",
    "USER_SCRAM_CREDENTIAL_RECORD",
}
pytestmark = pytest.mark.timeout(300)


def brokers_and_topics(client: WireClient, cluster_id: str) -> None:
    """Two brokers, one of them out of sync and fenced; topics on them, a feature, a block of
    producer ids.
    """
    epochs: dict[int, int] = {}
    for broker_id in (101, 102):
        fields: dict[str, Any] = {
            "incarnation_id": Uuid(bytes([broker_id]) * 16),
            "rack": f"rack-{broker_id}",
        }
        fields["listeners"] = [
            {"name": "BROKER", "host": "127.0.0.1", "port": broker_id, "security_protocol": 0}
        ]
        fields |= {
            "log_dirs": [directory(broker_id)],
            "features": offered(SUPPORTED),
            "cluster_id": cluster_id,
        }
        epochs[broker_id] = told(
            client, made("BrokerRegistrationRequest", broker_id=broker_id, **fields), 4
        ).broker_epoch
        told(client, beat(broker_id, epochs[broker_id]), 2)
    configs = [{"name": "min.insync.replicas", "value": "2"}]
    orders = {"name": "orders", "num_partitions": 3, "replication_factor": 2, "configs": configs}
    told(
        client,
        create(
            orders, {"name": "alone", "assignments": [{"partition_index": 0, "broker_ids": [101]}]}
        ),
        7,
    )
    told(client, made("AllocateProducerIdsRequest", broker_id=101, broker_epoch=epochs[101]), 0)
    update = {"feature": "share.version", "max_version_level": 1, "upgrade_type": UPGRADE}
    told(client, made("UpdateFeaturesRequest", feature_updates=[update]), 2)
    assert told(client, beat(102, epochs[102], want_fence=True), 2).is_fenced


def beat(broker_id: int, epoch: int, **wants: Any) -> Message:
    made_: Message = made(
        "BrokerHeartbeatRequest",
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=ALL,
        **wants,
    )
    return made_


def told(client: WireClient, request: Message, version: int) -> Any:
    answer: Any = client.call(request, version)
    assert not getattr(answer, "error_code", 0), answer
    return answer


def newest_snapshot(node: Node, end: int) -> Path:
    """The snapshot of everything below ``end``, once the node has written it."""
    found = until(
        lambda: [one for one in snapshots(node.metadata_log_dir) if one.end_offset >= end],
        f"a snapshot at {end} or later",
    )
    return node.metadata_log_dir / found[-1].file_name


def kafka_on(snapshot: Path, own: OwnCluster, scratch: Path) -> Cluster:
    """A Kafka controller that replaces the kwire node, with ``snapshot`` as its only state; not
    started yet.
    """
    [kwires] = own.nodes
    snaps_often = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    shape = Shape(
        java.KAFKA_VERSION, 0, 1, properties={**_SETTINGS, **snaps_often, **own.quorum_properties()}
    )
    kafkas = replace(kwires, roles=("controller",), directory=scratch / "kafka", process=None)
    shutil.copytree(kwires.log_dir, kafkas.log_dir)
    log = kafkas.metadata_log_dir
    for path in (*log.glob("*.log"), *log.glob("*index"), *log.glob("*.checkpoint")):
        if path.name != snapshot.name:
            path.unlink()
    write_properties(shape, kafkas, [kafkas])
    return Cluster(shape, own.cluster_id, [kafkas], scratch, FAST_START)


def test_kafka_loads_a_snapshot_of_every_area(tmp_path: Path) -> None:
    need_java()
    settings = {**QUICK, **_SETTINGS, "metadata.log.max.snapshot.interval.ms": "1000"}
    with own_quorum(ids=[11], properties=settings, formatted=True) as own:
        node = own.wait_for_leader()
        with WireClient(own.controllers) as client:
            write_all(client)
            brokers_and_topics(client, own.cluster_id)
        kwires = newest_snapshot(node, leader_end(node))
        own.stop_node(node)
        cluster = kafka_on(kwires, own, tmp_path)
    payloads, batches = dump(cluster.nodes[0].metadata_log_dir / kwires.name)
    assert all("isvalid: true" in line for line in batches)
    assert {text.split('"')[3] for text in payloads if text.startswith('{"type"')} >= _AREAS
    tree = shell(cluster.nodes[0].metadata_log_dir / kwires.name)
    assert all(
        name in tree
        for name in ("orders", "rack-101", "share.version", "SCRAM-SHA-256", "producer_byte_rate")
    )
    before = state_of(image_of_snapshot(cluster.nodes[0].metadata_log_dir / kwires.name, tmp_path))
    written = of_kafka(cluster, tmp_path)
    gone, come = kinds(before - written), kinds(written - before)
    # Kafka's first snapshot may come before it has registered itself in the place of kwire's node.
    assert gone in ({}, {"REGISTER_CONTROLLER_RECORD": 1})
    assert come == {**gone, "CONFIG_RECORD": 1}
    FIGURES.append(
        f"snapshot of our quorum: {before.total()} records of {len(kinds(before))} types loaded "
        "by Kafka, and all written again"
    )


def of_kafka(cluster: Cluster, scratch: Path) -> Counter[str]:
    """The record types of a snapshot that Kafka writes after it has become leader and set one
    more configuration.
    """
    [node] = cluster.nodes
    cluster.start_node(node)
    try:
        cluster.wait_for_node(node)
        cluster.wait_for_leader()
        alter = [
            "--alter",
            "--entity-type",
            "topics",
            "--entity-name",
            "orders",
            "--add-config",
            "segment.ms=60000",
        ]
        assert "Completed" in cluster.controller_tool("kafka.admin.ConfigCommand", alter)
        kafkas = newest_snapshot(node, leader_end(node))
        assert complaints(node) == []
        return state_of(image_of_snapshot(kafkas, scratch))
    finally:
        cluster.stop(kill=True)


def kinds(rows: Counter[str]) -> dict[str, int]:
    """The number of records of each type."""
    return dict(Counter(text.split('"')[1] for text in rows.elements()))
