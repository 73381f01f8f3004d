"""Requests that name thousands of topics, partitions, groups or resources."""

from __future__ import annotations

import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.gateway.controller.cluster import made
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum, status
from tests.waiting import PATIENCE_S, until
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

TOPICS = 4_500
#: Below request.max.elements, 20,000, with a topic and a partition each.
PARTITIONS = 19_000
NUMBERS = range(TOPICS)
NAMES = [f"name-{number}" for number in range(PARTITIONS)]
TOPIC, GROUP = 2, 32
#: Requests of a flood, and connections that stop.
CHANGES, STOPPED = 12, 300


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum() as cluster:
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as admin:
            admin.call(created("t", TOPICS), 7)
        yield cluster


def created(prefix: str, count: int) -> Any:
    topics = [
        {"name": f"{prefix}{number}", "num_partitions": 1, "replication_factor": 1}
        for number in range(count)
    ]
    return made("CreateTopicsRequest", topics=topics, timeout_ms=60_000)


def partitions(attr: str = "partition_index", **fields: Any) -> list[dict[str, Any]]:
    return [{attr: number, **fields} for number in range(PARTITIONS)]


def configured(name: str, *, retention_ms: int = 1000, **entry: Any) -> Any:
    entries = [{"name": "retention.ms", "value": str(retention_ms), **entry}]
    resources = [
        {"resource_type": TOPIC, "resource_name": f"t{number}", "configs": entries}
        for number in NUMBERS
    ]
    return made(name, resources=resources)


def alter_quotas(count: int = 4_000, rate: float = 1.0) -> Any:
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": f"user-{number}"}],
            "ops": [{"key": "producer_byte_rate", "value": rate, "remove": False}],
        }
        for number in range(count)
    ]
    return made("AlterClientQuotasRequest", entries=entries)


#: For each attack the version and the request.
ATTACKS: dict[str, tuple[int, Callable[[], Any]]] = {
    "CreateTopics": (7, lambda: created("new", 4_500)),
    "CreateTopics of too many": (7, lambda: created("many", 6_500)),
    "CreatePartitions": (
        3,
        lambda: made(
            "CreatePartitionsRequest",
            topics=[{"name": f"t{number}", "count": 2, "assignments": None} for number in NUMBERS],
            timeout_ms=60_000,
        ),
    ),
    "IncrementalAlterConfigs": (
        1,
        lambda: configured("IncrementalAlterConfigsRequest", config_operation=0),
    ),
    "AlterConfigs": (2, lambda: configured("AlterConfigsRequest")),
    "AlterClientQuotas": (1, alter_quotas),
    "DescribeConfigs": (
        4,
        lambda: made(
            "DescribeConfigsRequest",
            resources=[
                {"resource_type": TOPIC, "resource_name": f"t{number}", "configuration_keys": None}
                for number in NUMBERS
            ],
            include_synonyms=True,
        ),
    ),
    "ListOffsets": (
        8,
        lambda: made(
            "ListOffsetsRequest",
            replica_id=-1,
            topics=[{"name": "t0", "partitions": partitions(timestamp=-1)}],
        ),
    ),
    "Produce": (
        9,
        lambda: made(
            "ProduceRequest",
            acks=1,
            topic_data=[{"name": "t0", "partition_data": partitions("index", records=None)}],
        ),
    ),
    "DescribeProducers": (
        0,
        lambda: made(
            "DescribeProducersRequest",
            topics=[{"name": "t0", "partition_indexes": list(range(PARTITIONS))}],
        ),
    ),
    "OffsetCommit": (
        9,
        lambda: made(
            "OffsetCommitRequest",
            group_id="attack",
            topics=[
                {
                    "name": f"t{number}",
                    "partitions": [{"partition_index": 0, "committed_offset": 1}],
                }
                for number in NUMBERS
            ],
        ),
    ),
    "OffsetFetch": (
        9,
        lambda: made(
            "OffsetFetchRequest", groups=[{"group_id": name, "topics": None} for name in NAMES]
        ),
    ),
    "OffsetDelete": (
        0,
        lambda: made(
            "OffsetDeleteRequest",
            group_id="attack",
            topics=[
                {"name": f"t{number}", "partitions": [{"partition_index": 0}]} for number in NUMBERS
            ],
        ),
    ),
    "DescribeGroups": (5, lambda: made("DescribeGroupsRequest", groups=NAMES)),
    "DeleteGroups": (2, lambda: made("DeleteGroupsRequest", groups_names=NAMES)),
    "DeleteTopics": (
        6,
        lambda: made(
            "DeleteTopicsRequest",
            topics=[{"name": f"new{number}"} for number in NUMBERS],
            timeout_ms=60_000,
        ),
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_long_request_disturbs_no_other_client(cluster: OwnCluster, name: str) -> None:
    version, make = ATTACKS[name]
    request = make()

    def attack() -> None:
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as client:
            client.call(request, version)

    assert_others_undisturbed(cluster, attack, memory_mib=128)


def test_flood_of_changed_quotas_disturbs_no_other_client(cluster: OwnCluster) -> None:
    rates = itertools.count(1)

    def attack() -> None:
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as client:
            for _ in range(CHANGES):
                client.call(alter_quotas(1_000, float(next(rates))), 1)

    assert_others_undisturbed(cluster, attack, memory_mib=128)


def test_flood_of_changed_configs_disturbs_no_other_client(cluster: OwnCluster) -> None:
    values = itertools.count(1001)

    def attack() -> None:
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as client:
            for _ in range(CHANGES // 4):  # each is four times as long
                name = "IncrementalAlterConfigsRequest"
                client.call(configured(name, retention_ms=next(values), config_operation=0), 1)

    assert_others_undisturbed(cluster, attack, memory_mib=128)


def test_connections_that_stop_inside_a_frame_disturb_no_other_client(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()

    def attack() -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(STOPPED):
                address = "127.0.0.1", leader.broker_port
                one = stack.enter_context(socket.create_connection(address))
                one.sendall(b"\0\0\x10\0\0\x12\0\3")
            until(
                lambda: status(leader)["connections"]["open"]["BROKER"] >= STOPPED,
                "the connections are accepted",
            )

    assert_others_undisturbed(cluster, attack)
