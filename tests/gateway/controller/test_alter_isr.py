"""AlterPartition in the forms without topic ids: AlterIsr of KIP-497's text (version 0), and with
topic names (version 1, KIP-704).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwire.messages.kip.kip497.alter_isr_request import (
    AlterIsrRequest,
    LeaderAndIsr,
    PartitionData,
    TopicData,
)
from kwire.messages.kip.kip497.alter_isr_response import AlterIsrResponse
from kwire.messages.old import alter_partition_request as by_name
from kwire.messages.old.alter_partition_response import AlterPartitionResponse
from kwire.protocol import ErrorCode
from tests.gateway.controller.broker_cluster import TOPIC, BrokerCluster
from tests.gateway.controller.test_alter_partition import cluster


def ask_isr(it: BrokerCluster, isr: list[int], **says: Any) -> int:
    """The error of an AlterIsr request, which goes over the wire."""
    now = it.partition()
    fields = {
        "leader": 1,
        "leader_epoch": now.leader_epoch,
        "current_zk_version": now.partition_epoch,
        **says,
    }
    name, broker_id = fields.pop("topic", TOPIC), fields.pop("broker_id", 1)
    partitions = [PartitionData(partition_id=0, leader_and_isr=LeaderAndIsr(isr=isr, **fields))]
    request = AlterIsrRequest(
        broker_id=broker_id,
        broker_epoch=it.broker(broker_id).broker_epoch,
        topics=[TopicData(topic=name, partitions=partitions)],
    )
    answer: AlterIsrResponse = it.ask(request, 0)
    assert answer.error_code == 0
    return answer.topics[0].partitions[0].error_code


def test_alter_isr_changes_the_isr_as_kip_497_says() -> None:
    it = cluster()
    assert ask_isr(it, [1, 2, 3]) == ErrorCode.NONE
    assert it.partition().isr == [1, 2, 3]
    assert ask_isr(it, [1], current_zk_version=0) == ErrorCode.INVALID_UPDATE_VERSION
    assert ask_isr(it, [1], leader=2) == ErrorCode.INVALID_REQUEST
    assert ask_isr(it, [2], broker_id=2, leader=2) == ErrorCode.INVALID_REQUEST
    assert ask_isr(it, [1], topic="nothing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    it.fence(3)
    assert ask_isr(it, [1, 2, 3]) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert it.reassign([2, 4], allow_replication_factor_change=True) == ErrorCode.NONE
    assert ask_isr(it, [1, 2, 4]) == ErrorCode.FENCED_LEADER_EPOCH
    assert (it.partition().leader, it.partition().isr) == (2, [2, 4])


def ask_by_name(it: BrokerCluster, isr: list[int], **says: Any) -> int:
    """The error of AlterPartition 1; of one that is taken, the answer is the partition as it is
    then.
    """
    now = it.partition()
    fields = {"leader_epoch": now.leader_epoch, "partition_epoch": now.partition_epoch, **says}
    name, broker_id = fields.pop("topic", TOPIC), fields.pop("broker_id", 1)
    partitions = [by_name.PartitionData(partition_index=0, new_isr=isr, **fields)]
    request = by_name.AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=it.broker(broker_id).broker_epoch,
        topics=[by_name.TopicData(topic_name=name, partitions=partitions)],
    )
    answer: AlterPartitionResponse = it.ask(request, 1)
    assert answer.error_code == 0 and answer.topics[0].topic_name == name
    told = answer.topics[0].partitions[0]
    if not told.error_code:
        after = it.partition()
        assert (told.leader_id, told.leader_epoch, told.isr) == (
            after.leader,
            after.leader_epoch,
            after.isr,
        )
        assert (told.partition_epoch, told.leader_recovery_state) == (
            after.partition_epoch,
            after.leader_recovery_state,
        )
    return told.error_code


def test_alter_partition_1_names_topics() -> None:
    it = cluster()
    assert ask_by_name(it, [1, 2, 3]) == ErrorCode.NONE
    assert it.partition().isr == [1, 2, 3]
    assert ask_by_name(it, [1], topic="nothing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask_by_name(it, [1], leader_recovery_state=1) == ErrorCode.INVALID_REQUEST
    it.fence(3)
    assert ask_by_name(it, [1, 2, 3]) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert it.reassign([2, 4], allow_replication_factor_change=True) == ErrorCode.NONE
    assert ask_by_name(it, [1, 2, 4]) == ErrorCode.FENCED_LEADER_EPOCH
    assert (it.partition().leader, it.partition().isr) == (2, [2, 4])


@pytest.mark.parametrize(
    ("ask", "epoch"), [(ask_isr, "current_zk_version"), (ask_by_name, "partition_epoch")]
)
def test_older_forms_have_the_checks_in_the_same_order(ask: Callable[..., int], epoch: str) -> None:
    it = cluster()
    before = len(it.log)
    rows: list[tuple[list[int], dict[str, Any], ErrorCode]] = [
        ([1, 2, 3], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1, 2, 3], {"leader_epoch": -1, epoch: 2}, ErrorCode.NOT_CONTROLLER),
        ([1, 2, 3], {"leader_epoch": -1, epoch: 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2, 4], {epoch: 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2, 2], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([], {}, ErrorCode.INVALID_REQUEST),
    ]
    assert [(isr, says, ErrorCode(ask(it, isr, **says))) for isr, says, _ in rows] == rows
    assert len(it.log) == before


@pytest.mark.parametrize(
    ("kind", "version"), [(AlterIsrRequest, 0), (by_name.AlterPartitionRequest, 1)]
)
def test_request_of_an_unregistered_broker_is_refused_as_a_whole(kind: Any, version: int) -> None:
    it = cluster()
    topic: Any = kind.struct_class("TopicData")()
    answer = it.ask(kind(broker_id=9, broker_epoch=1, topics=[topic]), version)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    forbidden = [("CLUSTER_ACTION", "CLUSTER", "kafka-cluster")]
    request = kind(broker_id=1, broker_epoch=it.broker(1).broker_epoch)
    assert it.ask(request, version, forbidden).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
