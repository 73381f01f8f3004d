"""AlterPartition: ISR changes that a leader may make, and the refusals in the order of Kafka's
checks.
"""

from __future__ import annotations

from typing import Any

import pytest

from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import made


def cluster() -> BrokerCluster:
    """A partition that 1 leads; 3 is out of sync."""
    made = BrokerCluster((1, 2, 3, 4))
    made.create([1, 2, 3])
    assert made.alter([1, 2]).error_code == 0
    return made


@pytest.mark.parametrize("version", [2, 3])
def test_an_isr_grows_and_shrinks(version: int) -> None:
    it = cluster()
    grown = it.alter([1, 2, 3], version=version)
    assert (grown.error_code, grown.leader_id, grown.isr) == (0, 1, [1, 2, 3])
    assert (grown.leader_epoch, grown.partition_epoch, grown.leader_recovery_state) == (0, 2, 0)
    shrunk = it.alter([1], version=version)
    assert (shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == ([1], 0, 3)
    assert it.partition().isr == [1]


def test_unchanged_isr_makes_no_record() -> None:
    it = cluster()
    before = len(it.log)
    answer = it.alter([1, 2])
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1, 2], 1)
    assert len(it.log) == before


@pytest.mark.parametrize(
    ("isr", "says", "error"),
    [
        ([1, 2, 3], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1, 2, 3], {"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ([1, 2, 3], {"leader_epoch": -1, "partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ([1, 2, 3], {"leader_epoch": -1, "broker_id": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 2, 3], {"broker_id": 2, "partition_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ([1, 2, 3, 4], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2, 2], {}, ErrorCode.INVALID_REQUEST),
        ([1, -1], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ([1], {"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_invalid_isr_change_is_refused(
    isr: list[int], says: dict[str, Any], error: ErrorCode
) -> None:
    it = cluster()
    before = len(it.log)
    assert ErrorCode(it.alter(isr, **says).error_code) == error
    assert len(it.log) == before


def test_request_without_a_partition_is_answered_whoever_sends_it() -> None:
    it = cluster()
    before = len(it.log)
    answer = it.ask(made("AlterPartitionRequest", broker_id=9, broker_epoch=1))
    assert (answer.error_code, answer.topics) == (ErrorCode.NONE, [])
    assert len(it.log) == before


def test_request_of_an_unregistered_broker_is_refused_as_a_whole() -> None:
    it = cluster()
    assert it.alter([1], broker_epoch=5).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert it.alter([1], broker_id=9).error_code == ErrorCode.STALE_BROKER_EPOCH
    request = made("AlterPartitionRequest", broker_id=1, broker_epoch=it.broker(1).broker_epoch)
    forbidden = [("CLUSTER_ACTION", "CLUSTER", "kafka-cluster")]
    assert it.ask(request, forbidden=forbidden).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_unknown_topic_is_refused() -> None:
    it = cluster()
    topics = [{"topic_id": Uuid(b"\x05" * 16), "partitions": [{"partition_index": 0}]}]
    answer = it.ask(
        made(
            "AlterPartitionRequest",
            broker_id=1,
            broker_epoch=it.broker(1).broker_epoch,
            topics=topics,
        )
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_replica_that_is_not_active_cannot_join_the_isr() -> None:
    it = cluster()
    old = it.broker(3).broker_epoch
    it.fence(3)
    assert it.alter([1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert it.alter([1, 2, 3], version=2).error_code == ErrorCode.INELIGIBLE_REPLICA
    it.now_ms += 60_000
    it.come(3)
    stale = [{"broker_id": 1, "broker_epoch": -1}, {"broker_id": 3, "broker_epoch": old}]
    assert it.alter([], new_isr_with_epochs=stale).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert it.alter([1, 2, 3]).error_code == 0


def test_second_change_of_one_partition_has_a_stale_epoch() -> None:
    it = cluster()
    now = it.partition()
    asked = {
        "partition_index": 0,
        "leader_epoch": now.leader_epoch,
        "partition_epoch": now.partition_epoch,
    }
    isr = [{"broker_id": 1, "broker_epoch": -1}]
    topics = [{"topic_id": now.topic_id, "partitions": [{**asked, "new_isr_with_epochs": isr}] * 2}]
    answer = it.ask(
        made(
            "AlterPartitionRequest",
            broker_id=1,
            broker_epoch=it.broker(1).broker_epoch,
            topics=topics,
        )
    )
    assert [one.error_code for one in answer.topics[0].partitions] == [
        0,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]


def test_recovering_leader_is_alone_in_the_isr_until_it_has_recovered() -> None:
    it = BrokerCluster((1, 2), level=15)
    it.create([1, 2], unclean_leader_election_enable="true")
    it.alter([1])
    it.fence(1)
    assert (it.partition().leader, it.partition().isr, it.partition().leader_recovery_state) == (
        2,
        [2],
        1,
    )
    it.heartbeat(1)
    assert it.alter([2, 1], leader_recovery_state=1).error_code == ErrorCode.INVALID_REQUEST
    recovered = it.alter([2, 1])
    assert (recovered.error_code, recovered.isr, recovered.leader_recovery_state) == (0, [2, 1], 0)


def test_leader_that_its_isr_change_removes_gets_new_leader_elected() -> None:
    it = cluster()
    assert it.reassign([2, 3, 4]) == ErrorCode.NONE
    assert it.partition().adding_replicas == [4]
    answer = it.alter([1, 2, 3, 4])
    assert ErrorCode(answer.error_code) == ErrorCode.NEW_LEADER_ELECTED
    after = it.partition()
    assert (after.leader, after.replicas, after.isr, after.leader_epoch) == (
        2,
        [2, 3, 4],
        [2, 3, 4],
        1,
    )
