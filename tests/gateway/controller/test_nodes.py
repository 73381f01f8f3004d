"""Nodes and directories that can have replicas, by the registrations in the log."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.controller.nodes import LOST, MIGRATING, UNASSIGNED, Nodes
from gateway.controller.placement import UsableNode
from kwire.cluster import Image
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.uuid import Uuid
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import create

ONE, OTHER = Uuid(b"\x11" * 16), Uuid(b"\x22" * 16)


def nodes(**fields: Any) -> Nodes:
    """The nodes of a cluster with one registered broker, beside those of the quorum."""
    image = Image()
    image.brokers[7] = RegisterBrokerRecord(
        **{"broker_id": 7, "rack": None, "fenced": False, "log_dirs": [ONE, OTHER], **fields}
    )
    return Nodes(image, (1, 2))


@pytest.mark.parametrize(
    ("fields", "usable", "active"),
    [
        ({}, [UsableNode(7)], True),
        ({"rack": "a", "fenced": True}, [UsableNode(7, "a", fenced=True)], False),
        ({"in_controlled_shutdown": True}, [], False),
        ({"in_controlled_shutdown": True, "fenced": True}, [UsableNode(7, fenced=True)], False),
        ({"cordoned_log_dirs": [ONE]}, [UsableNode(7)], True),
        ({"cordoned_log_dirs": [OTHER, ONE]}, [], True),
        ({"log_dirs": [], "cordoned_log_dirs": [ONE]}, [UsableNode(7)], True),
    ],
)
def test_usable_brokers_are_those_with_room(
    fields: dict[str, Any], usable: list[UsableNode], active: bool
) -> None:
    assert (nodes(**fields).usable(), nodes(**fields).is_active(7)) == (usable, active)
    assert (7 in nodes(**fields), 1 in nodes(**fields)) == (True, False)


def test_nodes_of_the_quorum_are_usable_without_brokers() -> None:
    without = Nodes(Image(), (1, 2))
    assert without.usable() == [UsableNode(1), UsableNode(2)]
    assert (without.is_active(1), without.is_active(7), without.has_directory(1, UNASSIGNED)) == (
        True,
        False,
        True,
    )


@pytest.mark.parametrize(
    ("directory", "online"), [(ONE, True), (UNASSIGNED, True), (MIGRATING, True), (LOST, False)]
)
def test_directory_is_online_as_in_kafka(directory: Uuid, online: bool) -> None:
    assert nodes().has_directory(7, directory) is online
    assert nodes(log_dirs=[OTHER]).has_directory(7, directory) is (online and directory != ONE)
    assert nodes(log_dirs=[]).has_directory(7, directory) is online
    assert not nodes().has_directory(8, directory)


@pytest.mark.parametrize(
    ("directories", "where"), [([], MIGRATING), ([ONE], ONE), ([ONE, OTHER], UNASSIGNED)]
)
def test_new_replica_gets_the_only_directory(directories: list[Uuid], where: Uuid) -> None:
    assert nodes(log_dirs=directories).default_directory(7) == where


def test_topics_are_placed_on_unfenced_brokers_first() -> None:
    it = BrokerCluster((11, 12, 13))
    it.fence(13)
    assert (
        it.ask(create({"name": "orders", "num_partitions": 6, "replication_factor": 3}))
        .topics[0]
        .error_code
        == 0
    )
    for index in range(6):
        made = it.partition(index)
        assert (made.replicas[2], sorted(made.isr), made.leader) == (13, [11, 12], made.replicas[0])
        assert made.directories == [it.directory(one) for one in made.replicas]
