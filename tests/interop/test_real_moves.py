"""Partitions of Kafka brokers are reassigned under a kwire controller and keep their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.controller.nodes import MIGRATING, UNASSIGNED
from kwire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from tests.gateway.controller.cluster import create, made
from tests.interop.brokers import Producer, consume, partitions, running
from tests.interop.clients import need_java
from tests.interop.images import image_of
from tests.waiting import until
from tools.admin import Admin
from tools.kafka import Cluster
from tools.own_quorum import OwnCluster, own_quorum
from tools.real_brokers import real_brokers

TOPIC, PARTITIONS, RECORDS = "moving", 4, 2_000
#: ELECTION_NOT_NEEDED: a second try finds done what the first did.
_DONE_ALREADY = (84,)
#: An error that a broker logs whenever a partition is moved to it.
_USUAL = "to exist, but it was missing. Creating..."


def test_reassigned_partitions_keep_their_records(tmp_path: Path) -> None:
    need_java()
    with (
        own_quorum(1, formatted=True) as own,
        real_brokers(own, 2, log_dirs=2) as brokers,
    ):
        one, other = (node.node_id for node in brokers.nodes)
        by_hand = [{"partition_index": index, "broker_ids": [one]} for index in range(PARTITIONS)]
        ask(brokers, create({"name": TOPIC, "assignments": by_hand}))
        until(
            lambda: partitions(brokers, TOPIC),
            "the partitions",
            lambda told: len(told) == PARTITIONS,
        )
        sent, failed = Producer.start(brokers, TOPIC, RECORDS, -1, tmp_path).result()
        assert not failed
        move(brokers, [other])
        until(
            lambda: directories(own),
            "the directories of the replicas",
            lambda told: (
                told == dict.fromkeys([(index, other) for index in range(PARTITIONS)], True)
            ),
        )
        assert consume(brokers, TOPIC, RECORDS) == sent
        move(brokers, [one, other])
        assert {part.leader for part in partitions(brokers, TOPIC)} == {other}, "who leads stays"
        first = {"topic": TOPIC, "partitions": list(range(PARTITIONS))}
        ask(
            brokers,
            made("ElectLeadersRequest", election_type=0, topic_partitions=[first]),
            _DONE_ALREADY,
        )
        until(
            lambda: partitions(brokers, TOPIC),
            "the preferred leaders lead",
            lambda told: all(part.leader == one for part in told),
        )
        assert [line for line in brokers.errors() if _USUAL not in line] == []


def move(brokers: Cluster, to: list[int]) -> None:
    """Reassign all partitions to these brokers, and wait until they are there and in sync."""
    wanted = [{"partition_index": index, "replicas": to} for index in range(PARTITIONS)]
    ask(
        brokers,
        made("AlterPartitionReassignmentsRequest", topics=[{"name": TOPIC, "partitions": wanted}]),
    )
    until(
        lambda: partitions(brokers, TOPIC),
        f"the replicas are at {to} and in sync",
        lambda told: all(
            (part.replicas, part.in_sync) == (tuple(to), frozenset(to)) for part in told
        ),
    )
    assert ask(brokers, ListPartitionReassignmentsRequest(topics=None)).topics == []


def ask(brokers: Cluster, request: Any, accept: tuple[int, ...] = ()) -> Any:
    """The response of a broker, which forwards controller requests."""
    with Admin(running(brokers)) as admin:
        return admin.send(request, accept=accept)


def directories(own: OwnCluster) -> dict[tuple[int, int], bool]:
    """Of each replica: whether the log names the directory in which its broker holds it."""
    image = image_of(own.nodes[0].metadata_log_dir)
    found = {}
    for index, part in image.partitions[image.topic_ids[TOPIC]].items():
        for broker_id, directory in zip(part.replicas, part.directories, strict=True):
            found[index, broker_id] = (
                directory not in (UNASSIGNED, MIGRATING)
                and directory in image.brokers[broker_id].log_dirs
            )
    return found
