"""Partitions with three replicas, on brokers of kwire alone and beside brokers of Kafka, under the
controllers of either: brokers are killed, paused, cut off and restarted, their disks and clocks
fail, and nothing is lost, twice, out of order, taken back, left out or stale, no aborted record is
read, and the logs of the replicas are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.interop.clients import need_clients
from tests.interop.quorum import need_kafka
from tools.partition_checker.brokers import brokers
from tools.partition_checker.faults import FAULTS
from tools.partition_checker.run import check

_ROUNDS = 3
#: Between two idempotent records, s. A producer of librdkafka with records that wait looks after
#: them each millisecond, in a thread a broker.
_PAUSE_S = 0.05


class Case(NamedTuple):
    """Brokers of each kind under whose controllers, and the seed of the faults: the four cases have
    most kinds.
    """

    own: int
    java: int
    controllers: str
    seed: int


@pytest.mark.parametrize(
    "case",
    [
        Case(3, 0, "kwire", seed=20),  # cut-off, kill, slow-disk
        Case(3, 0, "combined", seed=15),  # cut-controllers, restart, full-disk
        Case(1, 2, "kafka", seed=11),  # kill, kill-controller, cut-off
        Case(1, 2, "kwire", seed=13),  # pause, cut-brokers, stutter
    ],
    ids=["own", "combined", "mixed-under-kafka", "mixed-under-kwire"],
)
def test_replicated_records_outlive_failures_of_brokers(case: Case) -> None:
    need_clients()
    need_kafka()
    with brokers(own=case.own, java=case.java, controllers=case.controllers) as running:
        report = check(running, _ROUNDS, sorted(FAULTS), case.seed, _PAUSE_S)
    assert not report["violations"]
    assert not report["errors"]
    assert sum(report["faults"].values()) == _ROUNDS
    assert report["acknowledged"] and report["committed"] and report["copied"]
    assert report["fresh_reads"]
