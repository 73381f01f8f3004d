"""Requests of nodes are bounded by their bytes, those of clients by ``request.max.elements``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.handlers.context import Peer
from gateway.handlers.table import controller_handlers, handlers
from gateway.server.clients.dispatch import Dispatcher, Malformed
from kwire.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.end_quorum_epoch_request import EndQuorumEpochRequest, ReplicaInfo
from kwire.messages.end_quorum_epoch_request import PartitionData as EndPartition
from kwire.messages.end_quorum_epoch_request import TopicData as EndTopic
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.server.harness import connect, request, run
from tests.gateway.server.own_nodes import lone_node

LIMIT = 500


def alter_partition(partitions: int, replicas: int = 2) -> AlterPartitionRequest:
    """AlterPartition of a broker that leads this many partitions: (replicas + 1) elements for
    each.
    """
    isr = [BrokerState(broker_id=broker, broker_epoch=1) for broker in range(replicas)]
    data = [
        PartitionData(partition_index=index, new_isr_with_epochs=isr) for index in range(partitions)
    ]
    return AlterPartitionRequest(
        broker_id=5, broker_epoch=1, topics=[TopicData(topic_id=Uuid(b"t" * 16), partitions=data)]
    )


class Rights:
    """An authorizer that counts its calls and allows given operations."""

    keeps_acls = True

    def __init__(self, allowed: bool) -> None:
        self.allowed, self.asked = allowed, 0

    def allows(
        self, principal: str, host: str, operation: str, resource_type: str, name: str
    ) -> bool:
        self.asked += operation == "CLUSTER_ACTION"
        return self.allowed


def dispatcher(rights: Rights, limit: int = LIMIT) -> Dispatcher:
    """A dispatcher with the tables of a node of an own quorum, and of the node only the
    authorizer.
    """
    gateway: Any = SimpleNamespace(
        authorizer=rights,
        controller=None,
        is_for_controllers=lambda listener: listener == "CONTROLLER",
        config=None,
    )
    return Dispatcher(
        handlers(), gateway, element_budget=limit, by_listener={"CONTROLLER": controller_handlers()}
    )


def dispatch(asked: Dispatcher, frame: bytes, listener: str = "CONTROLLER") -> Any:
    _, answer = asked.handle(frame[4:], Peer(listener, "User:node", "127.0.0.1", 1, 1), 0.0)
    return answer


def test_request_of_a_node_is_not_bounded_by_the_limit_for_clients() -> None:
    rights = Rights(True)
    large = request(56, 3, alter_partition(LIMIT).encode(3))
    assert dispatch(dispatcher(rights), large) is not None
    assert rights.asked == 1, "before anything is decoded"


def test_raft_request_of_a_node_has_at_most_five_thousand_elements() -> None:
    candidates = [ReplicaInfo(candidate_id=id) for id in range(5000)]
    partition = EndPartition(preferred_candidates=candidates)
    ending = EndQuorumEpochRequest(topics=[EndTopic(partitions=[partition])])
    with pytest.raises(Malformed, match="element-budget"):
        dispatch(dispatcher(Rights(True), 30_000), request(54, 1, ending.encode(1)))


def test_request_without_cluster_action_keeps_the_limit() -> None:
    with pytest.raises(Malformed, match="element-budget"):
        dispatch(dispatcher(Rights(False)), request(56, 3, alter_partition(LIMIT).encode(3)))


def test_small_request_of_a_node_is_not_authorized_before_it_is_decoded() -> None:
    rights = Rights(True)
    dispatch(dispatcher(rights), request(56, 3, alter_partition(3).encode(3)))
    assert rights.asked == 0


def test_client_request_on_a_controller_listener_keeps_the_limit() -> None:
    many = CreateTopicsRequest(
        topics=[CreatableTopic(name=f"topic-{number}") for number in range(LIMIT + 1)]
    )
    with pytest.raises(Malformed, match="element-budget"):
        dispatch(dispatcher(Rights(True)), request(19, 7, many.encode(7)))


def test_requests_of_brokers_and_raft_requests_have_limits_of_their_own() -> None:
    served = controller_handlers().values()
    assert {handler.name for handler in served if handler.for_nodes} == {
        "broker_registration", "broker_heartbeat", "allocate_producer_ids", "alter_partition",
        "assign_replicas_to_dirs", "controller_registration", "envelope",
    }  # fmt: skip
    assert {handler.name for handler in served if handler.elements_max is not None} == {
        "fetch", "vote", "begin_quorum_epoch", "end_quorum_epoch", "fetch_snapshot",
        "add_raft_voter", "remove_raft_voter", "update_raft_voter", "describe_quorum",
    }  # fmt: skip
    of_clients = handlers().values()
    assert not any(handler.for_nodes for handler in of_clients)
    # Listeners for clients pass them to the leader.
    assert {handler.name for handler in of_clients if handler.elements_max is not None} == {
        "add_raft_voter", "remove_raft_voter",
    }  # fmt: skip


def test_alter_partition_of_9500_partitions_is_answered_by_a_live_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path) as node, await connect(node.ports["CONTROLLER"]) as client:
            await client.send(request(18, 0, b""))
            await client.answer(18, 0)
            for _ in range(2):
                await client.send(request(56, 3, alter_partition(9_500 * 2).encode(3)))
                _, answer = await client.answer(56, 3)
                assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH, (
                    "broker 5 is not registered"
                )

    run(main)
