"""Simulated brokers on a live quorum of one node."""

from __future__ import annotations

from kwire.messages.describe_cluster_request import DescribeClusterRequest
from tools.admin import Admin
from tools.kafka_files import Node
from tools.own_quorum import own_quorum
from tools.simulated_brokers import simulated_brokers


def test_brokers_register_are_fenced_and_return() -> None:
    with own_quorum(1, formatted=True) as cluster:
        [node] = cluster.nodes
        with simulated_brokers(lambda: node.controller_address, cluster.cluster_id, 2) as brokers:
            first, second = brokers.epochs
            assert _serving(node) >= {first, second}
            assert brokers.heartbeat(first, fence=True)
            assert _serving(node) & {first, second} == {second}
            assert not brokers.heartbeat(first)
            assert _serving(node) >= {first, second}


def test_brokers_have_ids_from_the_first_id_on() -> None:
    with own_quorum(1, formatted=True) as cluster:
        [node] = cluster.nodes
        address = node.controller_address
        with simulated_brokers(lambda: address, cluster.cluster_id, 2, 1001) as brokers:
            assert list(brokers.epochs) == [1001, 1002]
            assert _serving(node) >= {1001, 1002}


def _serving(node: Node) -> set[int]:
    """The brokers that are not fenced. A heartbeat is answered when its effect is in the image."""
    with Admin([node.broker_address]) as admin:
        return {one.broker_id for one in admin.send(DescribeClusterRequest()).brokers}
