"""Asks the leader for what an observer needs besides the log: cluster id and voters (KIP-919, 836).

A controller requires Alter on the cluster for DescribeCluster, and Describe for DescribeQuorum. A
principal that may only follow gets neither: each question is then repeated later, and following
goes on without the answer. Kafka has no such step: its nodes read the cluster id from
``meta.properties``, and have an id of their own.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from gateway.base.address import Address
from gateway.quorum import error_messages, requests, voters
from gateway.quorum.node import Node
from gateway.quorum.roles import Follower
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.protocol import ErrorCode

#: Seconds until a request that brought no answer is repeated.
_REPEAT_S: Final = 30.0


class Handshake:
    """The two requests of one observer, each due at its own time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._cluster_due = self._voters_due = -math.inf

    def poll(self, role: Follower) -> None:
        """Send one request that is due before the next Fetch, if an answer is still missing."""
        node = self._node
        address = role.endpoints[node.settings.listener]
        # The peer has one request in flight at a time, so a question takes the turn of a Fetch.
        if node.installing is not None or node.now < node.peers.ready_at(address):
            return
        if node.cluster_id is None and node.now >= self._cluster_due:
            # Before the request: a leader that never answers must not be asked in every turn.
            self._cluster_due = node.now + _REPEAT_S
            key, versions = DescribeClusterRequest.API_KEY, requests.DESCRIBE_CLUSTER_VERSIONS
            on_answer = partial(self._on_cluster, address)
            node.ask(
                address,
                role.leader_id,
                key,
                versions,
                lambda version: requests.describe_cluster(),
                on_answer,
                # The question says nothing about this node's disk.
                after=0,
            )
        elif (
            node.settings.node_id >= 0 and not node.reported_voters and node.now >= self._voters_due
        ):
            self._voters_due = node.now + _REPEAT_S
            key, versions = DescribeQuorumRequest.API_KEY, requests.DESCRIBE_QUORUM_VERSIONS
            on_answer = partial(self._on_quorum, address)
            node.ask(
                address,
                role.leader_id,
                key,
                versions,
                lambda version: requests.describe_quorum(),
                on_answer,
                after=0,
            )

    def _on_cluster(self, address: Address, message: Any, version: int) -> bool | None:
        if message.error_code or not message.cluster_id:
            reason = error_messages.no_cluster_id(address, message.error_code)
            self._node.report_once("cluster id unknown", reason=reason)
        else:
            self._node.learn_cluster_id(message.cluster_id)
        # Neither success nor failure: the Fetch that follows needs no pause.
        return None

    def _on_quorum(self, address: Address, message: Any, version: int) -> bool | None:
        node = self._node
        # From a leader only: another node's response names no voters, which would look like an
        # empty quorum.
        ids = voters.voters_described(message)
        if ids is None:
            error = message.error_code or ErrorCode.NOT_LEADER_OR_FOLLOWER
            node.report_once(
                "voters unknown",
                reason=error_messages.no_voters(address, error, node.settings.node_id),
            )
            return None
        # Behind a relay this node must not connect to the quorum, not even where the relay is lost:
        # a thousand observers would do so at the same moment.
        direct = node.distance.relays == 0
        for id, host, port in voters.endpoints_described(message) if direct else ():
            # A known address is the one at which the node answered. The advertised one may not be
            # reachable from here, behind a forwarded port.
            if id not in node.addresses:
                node.learn_address(id, host, port)
        node.learn_voters(ids)
        return None
