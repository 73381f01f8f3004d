"""The life of a controller: bootstrap records, proposals that are not committed, loss of
leadership.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.controller.controller import Controller
from gateway.controller.records import Operation, encode
from gateway.controller.settings import ControllerSettings
from kwire.cluster import Image
from kwire.protocol import ErrorCode
from tests.gateway.controller.cluster import Cluster, allowing, create, replayed, same

LEVELS = range(7, 31)
TOPIC = {"name": "orders", "num_partitions": 2, "replication_factor": 1}


def controller(**settings: Any) -> Controller:
    return Controller(ControllerSettings(1, (1,), **settings), random=random.Random(1).randbytes)


def names(operation: Operation) -> list[str]:
    return [record.message.NAME for record in operation.records]


def test_first_controller_writes_the_records_of_kafka_4_3s_format() -> None:
    cluster = Cluster()
    assert cluster.image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert next(iter(cluster.image.features)) == "metadata.version"
    assert cluster.image.configs == {(4, ""): {"min.insync.replicas": "1"}}
    (bootstrap,) = cluster.began_with
    assert names(bootstrap) == [
        "BeginTransactionRecord",
        *["FeatureLevelRecord"] * 6,
        "ConfigRecord",
        "EndTransactionRecord",
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_begins_with_its_metadata_version(level: int) -> None:
    cluster = Cluster(level=level)
    assert cluster.image.metadata_version == level
    in_transaction = "BeginTransactionRecord" in names(cluster.began_with[0])
    assert in_transaction == (level >= 13)


def test_later_controller_writes_no_bootstrap_records() -> None:
    cluster = Cluster()
    assert cluster.elect() == []


def test_open_transaction_of_a_failed_controller_is_aborted() -> None:
    cluster = Cluster()
    (begin, *_) = encode(controller().activate(Image(), 0)[0].records)
    cluster.append(begin)
    (abort,) = cluster.elect()
    assert names(abort) == ["AbortTransactionRecord"]
    assert cluster.elect() == []


def test_aborted_bootstrap_transaction_is_written_again() -> None:
    first = controller().activate(Image(), 0)[0]
    for cut in range(1, len(first.records)):
        cluster = Cluster(log=encode(first.records)[:cut])
        assert [operation.name for operation in cluster.began_with] == ["abort", "bootstrap"]
        assert cluster.image.metadata_version == 30


def test_next_controller_writes_uncommitted_bootstrap_records() -> None:
    committed = Image()
    for _ in range(3):  # KAFKA-20839: the third writes it as the first did
        one = controller()
        assert [operation.name for operation in one.activate(committed, 0)] == ["bootstrap"]
        one.deactivate()
    assert same(committed, Image())


def test_next_request_sees_proposals_and_the_committed_image_does_not() -> None:
    cluster = Cluster()
    before = replayed(cluster.log)
    version = 7
    decision = cluster.decide(create(TOPIC), version)
    again = cluster.decide(create(TOPIC), version)
    assert decision.operation is not None and again.operation is None
    answer: Any = again.answer
    assert answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert same(cluster.image, before)


def test_uncommitted_proposals_are_dropped_with_the_leadership() -> None:
    cluster = Cluster()
    committed = replayed(cluster.log)
    cluster.decide(create(TOPIC), 7)
    cluster.controller.deactivate()
    assert cluster.controller.image is None and not cluster.controller.is_active
    cluster.elect()
    assert cluster.controller.image is not None and same(cluster.controller.image, committed)
    assert cluster.ask(create(TOPIC)).topics[0].error_code == 0


def test_inactive_controller_answers_not_controller_for_each_topic() -> None:
    answer: Any = controller().handle(create(TOPIC, {"name": "b"}), 7, allowing(), 0).answer
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NOT_CONTROLLER] * 2


def test_validate_only_changes_nothing() -> None:
    cluster = Cluster()
    decision = cluster.decide(create(TOPIC, validate_only=True), 7)
    assert decision.operation is None
    answer: Any = decision.answer
    assert answer.topics[0].error_code == 0
    cluster.check()
    assert cluster.ask(create(TOPIC)).topics[0].error_code == 0


def test_idle_controller_writes_a_no_op_record() -> None:
    one = controller(max_idle_interval_ms=500)
    one.activate(Image(), 1000)
    assert one.idle(1499) is None
    first = one.idle(1500)
    assert first is not None and names(first) == ["NoOpRecord"]
    assert one.idle(1999) is None
    one.handle(create(TOPIC), 7, allowing(), 1900)
    assert one.idle(2399) is None and one.idle(2400) is not None
    one.deactivate()
    assert one.idle(10_000) is None


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_step_of_the_wall_clock_neither_delays_nor_hastens_no_op_records(step_ms: int) -> None:
    wall_ms = 10_000_000
    one = controller(max_idle_interval_ms=500)
    one.activate(Image(), wall_ms, steady_ms=1000)
    one.handle(create(TOPIC), 7, allowing(), wall_ms + step_ms, steady_ms=1900)
    assert one.idle(2399) is None and one.idle(2400) is not None


def test_no_op_records_can_be_switched_off() -> None:
    one = controller(max_idle_interval_ms=0)
    one.activate(Image(), 0)
    assert one.idle(10_000) is None
