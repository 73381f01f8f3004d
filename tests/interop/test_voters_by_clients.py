"""kafka-metadata-quorum adds and removes voters through a listener for clients, of any node, as
through Kafka's brokers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.clients import need_java
from tests.interop.test_own_quorum_upgrade import directory_of, newcomer, voters
from tests.waiting import PATIENCE_S
from tools import java, java_tools
from tools.java import JavaError
from tools.java_tools import retried
from tools.kafka_files import Node
from tools.own_quorum import QUICK, OwnCluster, own_quorum

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def dynamic() -> Iterator[OwnCluster]:
    """Three voters that the log names."""
    need_java()
    with own_quorum(3, static_voters=False, properties=QUICK) as cluster:
        cluster.wait_for_leader()
        yield cluster


def through(node: Node, *arguments: str) -> str:
    where = ["--bootstrap-server", node.broker_address]
    return java_tools.run_tool(java.METADATA_QUORUM, [*where, *arguments], timeout_s=PATIENCE_S)


def follower(cluster: OwnCluster) -> Node:
    leader = cluster.wait_for_leader()
    return next(node for node in cluster.nodes if node is not leader and node.node_id != 4)


def test_voters_change_through_a_follower_and_through_the_leader(dynamic: OwnCluster) -> None:
    ids = {node.node_id: directory_of(node) for node in dynamic.nodes}
    node, config = newcomer(dynamic)
    file = ("--command-config", str(config))
    retried(lambda: through(follower(dynamic), *file, "add-controller"))
    assert voters(dynamic) == {**ids, 4: directory_of(node)}
    gone = ("--controller-id", "4", "--controller-directory-id", directory_of(node))
    retried(lambda: through(dynamic.wait_for_leader(), "remove-controller", *gone))
    assert voters(dynamic) == ids
    with pytest.raises(JavaError, match="VoterNotFoundException"):
        through(follower(dynamic), "remove-controller", *gone)
