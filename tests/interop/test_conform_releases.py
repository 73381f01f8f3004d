"""Kafka releases beside the usual one keep every rule of ``kwire conform``, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.conformance.rule import Role
from tests.interop.conform_cards import PROPERTIES, check, report_of
from tests.interop.quorum import need_kafka
from tools.kafka import Cluster, kafka

_WORKERS = 16


@pytest.fixture(scope="module", params=["4.1.2", "4.4.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One node that is broker and controller."""
    need_kafka(request.param)
    with kafka(version=request.param, properties=PROPERTIES) as running:
        yield running


def test_a_broker_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.bootstrap, destructive=True, workers=_WORKERS)
    assert report.roles == {Role.BROKER}
    check(report, cluster.version, least=1100)


def test_a_controller_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.controllers, destructive=True, workers=_WORKERS)
    assert report.roles == {Role.CONTROLLER}
    check(report, cluster.version, least=680)
