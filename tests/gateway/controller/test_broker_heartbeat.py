"""BrokerHeartbeat: the states of a broker, controlled shutdown, and log directories that fail or
are cordoned.
"""

from __future__ import annotations

from typing import Any

import pytest

from kwire.protocol import ErrorCode
from kwire.records.metadata import decode_metadata_record
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import made

Told = tuple[bool, bool, bool]
FENCED: Told = (True, True, False)
SERVES: Told = (True, False, False)
GO: Told = (True, True, True)


def beat(it: BrokerCluster, broker_id: int, **wants: Any) -> Told:
    answer = it.heartbeat(broker_id, **wants)
    assert answer.error_code == 0
    return answer.is_caught_up, answer.is_fenced, answer.should_shut_down


def at(it: BrokerCluster, broker_id: int, offset: int, **wants: Any) -> Any:
    epoch = it.broker(broker_id).broker_epoch
    return it.ask(
        made(
            "BrokerHeartbeatRequest",
            broker_id=broker_id,
            broker_epoch=epoch,
            current_metadata_offset=offset,
            **wants,
        )
    )


def written(it: BrokerCluster, since: int) -> list[tuple[str, int]]:
    """Names and versions of the records from an offset on."""
    return [
        (record.NAME, version) for _, version, record in map(decode_metadata_record, it.log[since:])
    ]


def test_broker_that_has_read_its_registration_is_unfenced() -> None:
    it = BrokerCluster()
    epoch = it.register(1).broker_epoch
    behind = at(it, 1, epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert beat(it, 1, want_fence=True) == FENCED
    since = len(it.log)
    assert beat(it, 1) == SERVES
    assert not it.broker(1).fenced
    assert written(it, since) == [("BrokerRegistrationChangeRecord", 0)]


def test_heartbeat_without_a_change_writes_nothing() -> None:
    it = BrokerCluster([1])
    since = len(it.log)
    for _ in range(3):
        assert beat(it, 1) == SERVES
    assert len(it.log) == since


def test_broker_that_wants_to_be_fenced_is_fenced() -> None:
    it = BrokerCluster([1, 2])
    it.create([1, 2])
    assert beat(it, 1, want_fence=True) == FENCED
    assert it.broker(1).fenced and it.partition().leader == 2


@pytest.mark.parametrize("epoch_more", [-1, 1])
def test_stale_broker_epoch_is_refused(epoch_more: int) -> None:
    it = BrokerCluster([1])
    request = made(
        "BrokerHeartbeatRequest", broker_id=1, broker_epoch=it.broker(1).broker_epoch + epoch_more
    )
    assert it.ask(request).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_unregistered_broker_is_refused() -> None:
    assert (
        BrokerCluster().ask(made("BrokerHeartbeatRequest", broker_id=1)).error_code
        == ErrorCode.STALE_BROKER_EPOCH
    )


def test_heartbeat_needs_cluster_action() -> None:
    it = BrokerCluster([1])
    request = made("BrokerHeartbeatRequest", broker_id=1, broker_epoch=it.broker(1).broker_epoch)
    answer = it.ask(request, forbidden=[("CLUSTER_ACTION", "CLUSTER", "*")])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_heartbeat_needs_no_confirmation() -> None:
    """Otherwise every heartbeat of every broker would make a record."""
    it = BrokerCluster([1])
    request = made("BrokerHeartbeatRequest", broker_id=1, broker_epoch=it.broker(1).broker_epoch)
    assert not it.decide(request, 2).needs_confirmation


# --- leaving


def test_broker_without_leaderships_shuts_down_at_once() -> None:
    it = BrokerCluster([1, 2])
    it.create([2, 1])
    assert beat(it, 1, want_shut_down=True) == GO
    assert it.broker(1).fenced and it.partition().isr == [2]


def test_broker_with_leaderships_waits_until_the_others_have_read_the_move() -> None:
    it = BrokerCluster([1, 2, 3])
    it.create([1, 2], [1, 3])
    since = len(it.log)
    assert beat(it, 1, want_shut_down=True) == SERVES
    assert written(it, since) == [
        ("BrokerRegistrationChangeRecord", 1),
        ("PartitionChangeRecord", 2),
        ("PartitionChangeRecord", 2),
    ]
    assert it.broker(1).in_controlled_shutdown and not it.broker(1).fenced
    assert [it.partition(index).leader for index in range(2)] == [2, 3]
    moved = len(it.log) - 1
    at(it, 2, moved)
    at(it, 3, moved - 1)
    assert beat(it, 1, want_shut_down=True) == SERVES
    at(it, 3, moved)
    assert beat(it, 1, want_shut_down=True) == GO
    assert it.broker(1).fenced


def test_last_broker_shuts_down_when_it_leads_nothing() -> None:
    it = BrokerCluster([1])
    it.create([1])
    assert beat(it, 1, want_shut_down=True) == SERVES
    assert it.partition().leader == -1
    assert beat(it, 1, want_shut_down=True) == GO


def test_broker_in_controlled_shutdown_does_not_delay_another_one() -> None:
    it = BrokerCluster([1, 2, 3])
    it.create([1, 2, 3], [2, 1, 3])
    beat(it, 1, want_shut_down=True)
    beat(it, 2, want_shut_down=True)
    at(it, 3, len(it.log) - 1)
    assert beat(it, 2, want_shut_down=True) == GO
    assert beat(it, 1, want_shut_down=True) == GO


def test_new_controller_continues_a_controlled_shutdown() -> None:
    it = BrokerCluster([1, 2])
    it.create([1, 2])
    beat(it, 1, want_shut_down=True)
    it.elect()
    since = len(it.log)
    assert beat(it, 1, want_shut_down=True) == GO
    assert written(it, since) == [("BrokerRegistrationChangeRecord", 0)]


def test_fenced_broker_shuts_down_at_once() -> None:
    it = BrokerCluster()
    it.register(1)
    assert beat(it, 1, want_shut_down=True) == GO


def test_broker_that_wants_fencing_and_shutdown_shuts_down_at_once() -> None:
    it = BrokerCluster([1, 2])
    it.create([1, 2])
    assert beat(it, 1, want_shut_down=True, want_fence=True) == GO
    assert it.partition().leader == 2


def test_next_incarnation_waits_for_the_session_after_controlled_shutdown() -> None:
    """As measured with Kafka 4.3.1: the session of the earlier incarnation ends by its timeout."""
    it = BrokerCluster([1])
    assert beat(it, 1, want_shut_down=True) == GO
    epoch = it.broker(1).broker_epoch
    assert (
        it.register(1, previous_epoch=epoch).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    )
    it.now_ms += 9_001
    assert it.register(1, previous_epoch=epoch).error_code == 0
    assert not it.broker(1).in_controlled_shutdown


# --- directories


def test_replicas_in_a_failed_directory_go_offline() -> None:
    it = BrokerCluster([1, 2], directories=2)
    it.create([1, 2])
    where = {"topic_id": it.image.topic_ids["orders"], "partitions": [{"partition_index": 0}]}
    assigned = {
        "broker_id": 1,
        "broker_epoch": it.broker(1).broker_epoch,
        "directories": [{"id": it.directory(1), "topics": [where]}],
    }
    it.ask(made("AssignReplicasToDirsRequest", **assigned))
    since = len(it.log)
    assert beat(it, 1, offline_log_dirs=[it.directory(1), it.directory(2)]) == SERVES
    assert written(it, since) == [
        ("PartitionChangeRecord", 2),
        ("BrokerRegistrationChangeRecord", 2),
    ]
    assert it.broker(1).log_dirs == [it.directory(1, 1)]
    assert (it.partition().leader, it.partition().isr) == (2, [2])
    assert beat(it, 1, offline_log_dirs=[it.directory(1)]) == SERVES
    assert len(it.log) == since + 2


def test_cordoned_directories_are_written_when_they_change() -> None:
    it = BrokerCluster([1], directories=2)
    one, other = it.directory(1), it.directory(1, 1)
    since = len(it.log)
    for cordoned in (None, [], [], [one, other], [other, one], [one], None):
        beat(it, 1, cordoned_log_dirs=cordoned)
    assert written(it, since) == [("BrokerRegistrationChangeRecord", 3)] * 3
    assert it.broker(1).cordoned_log_dirs == [one]


def test_no_cordoned_directories_before_the_level_that_has_them() -> None:
    it = BrokerCluster([1], level=29)
    since = len(it.log)
    beat(it, 1, cordoned_log_dirs=[it.directory(1)])
    assert len(it.log) == since
