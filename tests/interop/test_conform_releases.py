"""Kafka releases beside the usual one keep every rule of ``kwire conform``, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.conformance.rule import Role
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.protocol import ApiKey
from tests.interop.conform_cards import PROPERTIES, check, report_of
from tests.interop.quorum import need_kafka
from tools.gateway_process import gateway
from tools.kafka import Cluster, kafka
from tools.wire_client import WireClient

_WORKERS = 16


@pytest.fixture(scope="module", params=["4.1.2", "4.4.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One node that is broker and controller."""
    need_kafka(request.param)
    with kafka(version=request.param, properties=PROPERTIES) as running:
        yield running


def _offered(address: str) -> set[tuple[int, int]]:
    """Each version of each API."""
    asked = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    with WireClient(address) as client:
        listed = client.call(asked, 4).api_keys
    return {
        (one.api_key, version)
        for one in listed
        for version in range(one.min_version, one.max_version + 1)
    }


def test_a_broker_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.bootstrap, destructive=True, workers=_WORKERS)
    assert report.roles == {Role.BROKER}
    check(report, f"Kafka {cluster.version}", least=1100)


def test_a_broker_of_kwire_offers_what_kafka_offers(cluster: Cluster, tmp_path: Path) -> None:
    with gateway("--data-dir", str(tmp_path / "data")) as own:
        offered, of_kafka = _offered(own.bootstrap), _offered(cluster.bootstrap)
    # Kafka names versions of Produce that it does not serve, for old librdkafka.
    missing = of_kafka - offered - {(ApiKey.PRODUCE, version) for version in range(3)}
    assert missing == set()


def test_a_controller_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.controllers, destructive=True, workers=_WORKERS)
    assert report.roles == {Role.CONTROLLER}
    check(report, f"Kafka {cluster.version}", least=680)
