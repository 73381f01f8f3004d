"""Runs the workload's steps on nodes: a broker crashes and returns, voters are removed and added.

``tools.metadata_workload`` runs these steps last, because they change the cluster's nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.add_raft_voter_request import Listener as VoterListener
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.unregister_broker_request import UnregisterBrokerRequest
from kwire.uuid import Uuid
from tools.admin import Admin, AdminError
from tools.kafka import Cluster, Node
from tools.process import PATIENCE_S

_DUPLICATE_VOTER, _VOTER_NOT_FOUND = 126, 127
_TIMEOUT_MS = 20_000


def broker_comes_and_goes(cluster: Cluster, admin: Admin, brokers: list[Node]) -> None:
    """Kill the last broker, wait until it is fenced, unregister it, start it again as a new one,
    and shut it down.

    BROKER_REGISTRATION_CHANGE (fenced, unfenced, shutting down), PARTITION_CHANGE (ISR),
    UNREGISTER_BROKER, REGISTER_BROKER.
    """
    last = brokers[-1]
    cluster.kill_node(last)
    wait_for(
        lambda: last.node_id not in live_brokers(admin), "the controller to fence a dead broker"
    )
    admin.send(UnregisterBrokerRequest(broker_id=last.node_id), accept={102})
    _bring_back(cluster, admin, last)
    cluster.stop_node(last)
    _bring_back(cluster, admin, last)


def _bring_back(cluster: Cluster, admin: Admin, node: Node) -> None:
    cluster.start_node(node)
    cluster.wait_for_node(node)
    wait_for(lambda: node.node_id in live_brokers(admin), f"broker {node.node_id} to be unfenced")


def live_brokers(admin: Admin) -> set[int]:
    """Ids of the brokers that are registered and not fenced."""
    return {node.broker_id for node in admin.send(DescribeClusterRequest()).brokers}


def voters(cluster: Cluster) -> None:
    """Remove a voter of a dynamic quorum and add it again, then do the same with the leader.
    KRaftVoters control records.
    """
    leader = cluster.wait_for_leader()
    follower = next(node for node in cluster.nodes if node.directory_id and node is not leader)
    # Not through a broker: that goes on asking a controller that is no voter any more, and passes
    # its refusals on.
    with Admin(cluster.controllers.split(",")) as admin:
        for node in (follower, leader):
            _leave_and_join(cluster, admin, node)


def _leave_and_join(cluster: Cluster, admin: Admin, node: Node) -> None:
    directory_id = Uuid.parse(node.directory_id)
    removed = RemoveRaftVoterRequest(
        cluster_id=cluster.cluster_id, voter_id=node.node_id, voter_directory_id=directory_id
    )
    admin.send(removed, accept={_VOTER_NOT_FOUND})
    wait_for(
        lambda: cluster.leader() not in (node, None),
        f"another leader than {node.node_id}, which is no voter",
    )
    listener = VoterListener(name="CONTROLLER", host="127.0.0.1", port=node.controller_port)
    added = AddRaftVoterRequest(
        cluster_id=cluster.cluster_id,
        timeout_ms=_TIMEOUT_MS,
        voter_id=node.node_id,
        voter_directory_id=directory_id,
        listeners=[listener],
    )

    def accepted() -> bool:
        # The leader refuses a voter that is not caught up (REQUEST_TIMED_OUT: tried again).
        try:
            admin.send(added, accept={_DUPLICATE_VOTER})
            return True
        except AdminError:
            return False

    wait_for(accepted, f"voter {node.node_id} to be taken in again")


def wait_for(holds: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Return when ``holds()``. Raises AdminError."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise AdminError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(0.1)
