"""Kafka keeps every rule of ``kwire conform``, on brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.conformance.catalog import server_rules
from kwire.conformance.connection import open_plain
from kwire.conformance.outcome import Outcome, Report
from kwire.conformance.rule import Role
from kwire.conformance.runner import Options, run_rules
from kwire.conformance.session import Target, open_session
from tests.interop.conftest import FIGURES
from tests.interop.quorum import need_kafka
from tools.kafka import FAST_START, Cluster, kafka

_VERSION = "4.3.1"
_PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_NOT_KEPT = (Outcome.FAIL, Outcome.TIMEOUT, Outcome.ERROR, Outcome.ADVICE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller and a broker."""
    need_kafka(_VERSION)
    with kafka(
        version=_VERSION,
        brokers=1,
        controllers=1,
        properties=_PROPERTIES,
        options=FAST_START,
        kill_at_end=True,
    ) as running:
        yield running


def report_of(address: str) -> Report:
    host, _, port = address.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(address, plain, plain), timeout_s=30)
    return run_rules(session, server_rules(), Options())


def check(report: Report, least: int) -> None:
    counts = report.counts()
    FIGURES.append(
        f"conform, Kafka {_VERSION} {'/'.join(sorted(role.value for role in report.roles))}: "
        f"{counts[Outcome.PASS]} rules kept, {counts[Outcome.DEVIATION]} deviations, "
        f"{report.duration_s:.1f} s"
    )
    broken = [
        f"{result.rule.id}: {result.sentence}"
        for result in report.results
        if result.outcome in _NOT_KEPT
    ]
    assert broken == []
    assert report.remarks == []
    assert counts[Outcome.PASS] >= least
    assert report.duration_s < 60


def test_a_broker_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.bootstrap)
    assert report.roles == {Role.BROKER}
    check(report, least=830)


def test_a_controller_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.controllers)
    assert report.roles == {Role.CONTROLLER}
    check(report, least=390)
