"""Leaders and ISRs when brokers and directories come and go, and requested elections."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.controller.nodes import LOST
from kwire.messages.config_record import ConfigRecord
from kwire.protocol import ErrorCode
from kwire.records.metadata import encode_metadata_record
from tests.gateway.controller.broker_cluster import TOPIC, BrokerCluster
from tests.gateway.controller.cluster import create, made


def state(it: BrokerCluster, index: int = 0) -> tuple[int, list[int]]:
    return it.partition(index).leader, it.partition(index).isr


@pytest.mark.parametrize("level", [7, 11, 12, 17, 22, 30])
def test_other_replicas_lead_when_a_broker_is_fenced(level: int) -> None:
    it = BrokerCluster((1, 2, 3), level=level)
    it.create([1, 2, 3], [2, 3, 1], [3, 1, 2])
    it.fence(1)
    assert [state(it, index) for index in range(3)] == [(2, [2, 3]), (2, [2, 3]), (3, [3, 2])]
    epochs = [it.partition(index).leader_epoch for index in range(3)]
    assert epochs == ([1, 1, 1] if level < 12 else [1, 0, 0]), "KAFKA-15021"
    it.heartbeat(1)
    assert [state(it, index) for index in range(3)] == [(2, [2, 3]), (2, [2, 3]), (3, [3, 2])], (
        "it has to catch up first"
    )


def test_fencing_may_make_more_records_than_a_batch_holds() -> None:
    it = BrokerCluster((1, 2))
    for topic in ("a", "b"):
        it.ask(create({"name": topic, "num_partitions": 6_000, "replication_factor": 2}))
    it.fence(1)
    assert all(
        one.isr == [2] for partitions in it.image.partitions.values() for one in partitions.values()
    )


def test_last_isr_member_leads_when_it_returns() -> None:
    it = BrokerCluster((1, 2), level=22)
    it.create([1, 2])
    it.alter([1])
    it.fence(1)
    assert state(it) == (-1, [1])
    it.fence(2)
    it.heartbeat(2)
    assert state(it) == (-1, [1]), "it may lack records"
    it.heartbeat(1)
    assert state(it) == (1, [1])
    assert it.partition().leader_epoch == 2


def test_eligible_replica_leads_when_it_returns() -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2, 3], min_insync_replicas="2")
    it.alter([1, 2])
    it.fence(2)
    assert (state(it), it.partition().eligible_leader_replicas) == ((1, [1]), [2])
    it.fence(1)
    assert (state(it), it.partition().eligible_leader_replicas) == ((-1, []), [1, 2])
    assert it.partition().last_known_elr == [1]
    it.fence(3)
    it.heartbeat(3)
    assert state(it) == (-1, []), "it was not in sync when it mattered"
    it.heartbeat(2)
    assert (state(it), it.partition().eligible_leader_replicas) == ((2, [2]), [1])
    assert not it.partition().last_known_elr
    assert it.partition().leader_recovery_state == 0


@pytest.mark.parametrize(
    ("text", "left"), [("2\0", ([1], [2])), ("\uff12", ([1], [2])), ("\xa02", ([1], None))]
)
def test_min_isr_of_a_log_counts_as_java_reads_it(
    text: str, left: tuple[list[int], list[int] | None]
) -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2, 3])
    # Older releases took values that no broker reads: they count as the default.
    stored = ConfigRecord(
        resource_type=2, resource_name=TOPIC, name="min.insync.replicas", value=text
    )
    it.append(encode_metadata_record(stored, 0))
    it.elect()
    it.alter([1, 2])
    it.fence(2)
    assert (it.partition().isr, it.partition().eligible_leader_replicas) == left


@pytest.mark.parametrize("clean", [True, False])
def test_broker_after_an_unclean_shutdown_is_not_eligible(clean: bool) -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2, 3], min_insync_replicas="3")
    epoch = it.broker(2).broker_epoch
    it.fence(2)
    assert it.partition().eligible_leader_replicas == [2]
    it.now_ms += 60_000
    it.come(2, previous_epoch=epoch if clean else -1)
    assert it.partition().eligible_leader_replicas == ([2] if clean else None)


def test_unclean_leader_is_elected_if_the_topic_allows_it() -> None:
    it = BrokerCluster((1, 2), level=22)
    it.create([1, 2])
    it.alter([1])
    it.fence(1)
    config = [{"name": "unclean.leader.election.enable", "value": "true", "config_operation": 0}]
    resource = {"resource_type": 2, "resource_name": "orders", "configs": config}
    assert (
        it.ask(made("IncrementalAlterConfigsRequest", resources=[resource])).responses[0].error_code
        == 0
    )
    assert state(it) == (-1, [1])
    it.now_ms += it.settings.unclean_leader_election_interval_ms
    for broker_id in (1, 2):
        it.heartbeat(broker_id, want_fence=broker_id == 1)
    for operation in it.controller.poll(it.now_ms):
        it.commit(operation)
    it.check()
    assert (state(it), it.partition().leader_recovery_state) == ((2, [2]), 1)


def test_preferred_leader_is_elected_periodically() -> None:
    it = BrokerCluster((1, 2))
    it.create([1, 2], [2, 1])
    it.fence(1)
    it.heartbeat(1)
    it.alter([2, 1])
    assert state(it) == (2, [2, 1])
    it.now_ms += it.settings.leader_imbalance_check_interval_ms
    for broker_id in (1, 2):
        it.heartbeat(broker_id)
    for operation in it.controller.poll(it.now_ms):
        it.commit(operation)
    it.check()
    assert state(it) == (1, [2, 1])


def test_broker_in_controlled_shutdown_leads_nothing() -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2, 3], [2, 1, 3])
    assert not it.heartbeat(1, want_shut_down=True).should_shut_down
    assert it.broker(1).in_controlled_shutdown
    assert [state(it, index) for index in range(2)] == [(2, [2, 3]), (2, [2, 3])]
    assert it.alter([1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    for broker_id in (2, 3):
        it.heartbeat(broker_id)
    assert it.heartbeat(1, want_shut_down=True).should_shut_down


def test_unregistered_broker_is_in_no_isr() -> None:
    it = BrokerCluster((1, 2))
    it.create([1, 2])
    assert it.ask(made("UnregisterBrokerRequest", broker_id=1)).error_code == 0
    assert state(it) == (2, [2])
    assert it.reassign([2, 1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# --- directories


def assign(
    it: BrokerCluster, broker_id: int, directory: Any, *indexes: int, **says: Any
) -> list[int]:
    """The errors of AssignReplicasToDirs."""
    partitions = [{"partition_index": index} for index in indexes]
    topics = [{"topic_id": says.pop("topic_id", it.partition().topic_id), "partitions": partitions}]
    answer = it.ask(
        made(
            "AssignReplicasToDirsRequest",
            broker_id=broker_id,
            broker_epoch=says.pop("broker_epoch", it.broker(broker_id).broker_epoch),
            directories=[{"id": directory, "topics": topics}],
        )
    )
    if answer.error_code:
        return [answer.error_code]
    return [one.error_code for one in answer.directories[0].topics[0].partitions]


def test_replica_gets_the_directory_that_its_broker_reports() -> None:
    it = BrokerCluster((1, 2, 3), directories=2)
    it.create([1, 2], [2, 3])
    assert assign(it, 1, it.directory(1, 1), 0, 1, 7) == [
        0,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert it.partition().directories[0] == it.directory(1, 1)
    assert state(it) == (1, [1, 2])
    assert assign(it, 1, it.directory(1, 1), 0, topic_id=it.directory(9)) == [
        ErrorCode.UNKNOWN_TOPIC_ID
    ]
    assert assign(it, 1, it.directory(1), 0, broker_epoch=0) == [ErrorCode.STALE_BROKER_EPOCH]
    old = BrokerCluster((1,), level=16)
    old.create([1])
    assert assign(old, 1, old.directory(1), 0) == [ErrorCode.UNSUPPORTED_VERSION]


def test_replica_in_an_offline_directory_leads_nothing() -> None:
    it = BrokerCluster((1, 2), directories=2)
    it.create([1, 2], [1, 2])
    assign(it, 1, it.directory(1, 0), 0)
    assign(it, 1, it.directory(1, 1), 1)
    it.heartbeat(1, offline_log_dirs=[it.directory(1, 1)])
    assert [state(it, index) for index in range(2)] == [(1, [1, 2]), (2, [2])]
    assert assign(it, 1, LOST, 0) == [0]
    assert state(it) == (2, [2])
    it.fence(2)
    assert state(it, 1) == (-1, []), "a replica that is lost cannot be elected"


def test_failed_directory_moves_its_leaders() -> None:
    it = BrokerCluster((1, 2, 3), directories=2, level=22)
    it.create([1, 2])
    assign(it, 2, it.directory(2, 1), 0)
    it.alter([1])
    it.heartbeat(1, want_shut_down=True)
    assert state(it) == (-1, [1])
    for other in (2, 3):
        it.heartbeat(other)
    assert it.heartbeat(1, want_shut_down=True).should_shut_down
    it.heartbeat(1)
    assert state(it) == (1, [1]), "it came back without saying that it stays"
    it.heartbeat(2, offline_log_dirs=[it.directory(2, 1)])
    assert state(it) == (-1, [1]), "as Kafka: it may still be about to leave"


# --- elections


def elect(
    it: BrokerCluster, kind: int, *indexes: int, version: int = 2, topic: str = "orders"
) -> Any:
    asked = [{"topic": topic, "partitions": list(indexes)}] if indexes else None
    fields = {} if version == 0 else {"election_type": kind}
    return it.ask(made("ElectLeadersRequest", topic_partitions=asked, **fields), version)


def errors(answer: Any) -> list[tuple[int, int]]:
    return [
        (one.partition_id, one.error_code)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_preferred_election_elects_the_first_replica(version: int) -> None:
    it = BrokerCluster((1, 2))
    it.create([1, 2], [2, 1], [1, 2])
    it.fence(1)
    it.heartbeat(1)
    it.alter([2, 1])
    it.alter([2, 1], index=2)
    it.fence(1)
    it.heartbeat(1)
    it.alter([2, 1])
    answer = elect(it, 0, 0, 1, 2, 9, version=version)
    assert errors(answer) == [
        (0, 0),
        (1, ErrorCode.ELECTION_NOT_NEEDED),
        (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert state(it) == (1, [2, 1])
    assert errors(elect(it, 0, version=version)) == [
        (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    ], "of all: those that need it"


def test_unclean_election_elects_a_replica_outside_the_isr() -> None:
    it = BrokerCluster((1, 2, 3), level=22)
    it.create([1, 2], [1, 3])
    it.fence(3)
    it.alter([1])
    it.fence(1)
    assert errors(elect(it, 1, 0, 1)) == [(0, 0), (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
    assert (state(it), it.partition().leader_recovery_state) == ((2, [2]), 1)
    assert errors(elect(it, 1, 0)) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]


def test_impossible_election_is_refused() -> None:
    it = BrokerCluster((1,))
    it.create([1])
    assert elect(it, 7, 0).error_code == ErrorCode.INVALID_REQUEST
    assert errors(elect(it, 0, 0, topic="nothing")) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    asked = made("ElectLeadersRequest", topic_partitions=[{"topic": "orders", "partitions": [0]}])
    answer = it.ask(asked, forbidden=[("ALTER", "CLUSTER", "kafka-cluster")])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert errors(answer) == [(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
