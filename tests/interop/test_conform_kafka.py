"""Kafka keeps every rule of ``kwire conform``, on brokers and controllers.

``test_conform_releases`` has other releases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import conform
from kwire.conformance.catalog import select, server_rules
from kwire.conformance.outcome import Outcome
from kwire.conformance.rule import Role
from tests.conformance_faults.changes import Row
from tests.conformance_faults.controller_faults import VOTER_FAULTS
from tests.conformance_faults.kafka_faults import (
    ACL_FAULTS,
    PRODUCE_FAULTS,
    SESSION_FAULTS,
    TRANSACTION_FAULTS,
    VERSION_FAULTS,
)
from tests.conformance_faults.test_broker_faults import run_with_and_without
from tests.interop.conform_cards import PROPERTIES, check, report_of
from tests.interop.quorum import need_kafka, observing
from tests.waiting import PATIENCE_S
from tools.gateway_process import gateway
from tools.kafka import Cluster, kafka
from tools.kafka_security import properties_text, secured

_VERSION = "4.3.1"
_KAFKA = f"Kafka {_VERSION}"
#: The families of the KRaft proposals.
_KRAFT = (
    *("alter-partition", "broker-heartbeat", "describe-quorum", "forwarding", "metadata-records"),
    *("quorum-epochs", "raft", "registration", "replica-fetch", "snapshots", "voters", "vote"),
)

_OF_KWIRE = {"api-versions.no-removed-versions": "ListOffsets 0 serves old clients"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller and a broker."""
    need_kafka(_VERSION)
    with kafka(
        version=_VERSION,
        brokers=1,
        controllers=1,
        properties=PROPERTIES,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def secured_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """A controller with SASL_SSL, a broker, Kafka's authorizer, and the properties of a client."""
    need_kafka(_VERSION)
    directory = tmp_path_factory.mktemp("stores")
    settings = secured(directory, "SASL_SSL", mechanism="SCRAM-SHA-512")
    client = directory / "client.properties"
    client.write_text(properties_text(settings.client_properties))
    options = settings.options() | {"properties": {**settings.properties, **PROPERTIES}}
    with kafka(version=_VERSION, brokers=1, controllers=1, **options) as running:
        yield running, client


def test_a_broker_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.bootstrap)
    assert report.roles == {Role.BROKER}
    check(report, _KAFKA, least=1000)


def test_a_controller_keeps_every_rule(cluster: Cluster) -> None:
    report = report_of(cluster.controllers)
    assert report.roles == {Role.CONTROLLER}
    check(report, _KAFKA, least=520)


def test_an_observer_of_a_quorum_of_kafka_keeps_every_rule(
    cluster: Cluster, tmp_path: Path
) -> None:
    with gateway(*observing(cluster, tmp_path / "data")) as observer:
        report = report_of(observer.bootstrap, allowed=_OF_KWIRE)
    assert report.roles == {Role.BROKER}
    check(report, "kwire over Kafka", least=860)


def test_a_broker_of_kwire_keeps_every_rule(tmp_path: Path) -> None:
    with gateway("--data-dir", str(tmp_path / "data")) as own:
        report = report_of(own.bootstrap, destructive=True, allowed=_OF_KWIRE)
    assert report.roles == {Role.BROKER}
    check(report, "kwire", least=1180)


def test_a_broker_keeps_the_rules_of_transactions(cluster: Cluster) -> None:
    check(report_of(cluster.bootstrap, "transactions", destructive=True), _KAFKA, least=9)


def test_a_controller_keeps_the_rules_that_end_epochs_and_register_brokers(
    cluster: Cluster,
) -> None:
    check(report_of(cluster.controllers, *_KRAFT, destructive=True), _KAFKA, least=195)
    assert cluster.wait_for_leader(timeout_s=PATIENCE_S).node_id == cluster.nodes[0].node_id
    check(report_of(cluster.bootstrap, "describe-quorum", "topics"), _KAFKA, least=36)


def test_a_broker_with_an_authorizer_keeps_the_rules_of_acls(
    secured_cluster: tuple[Cluster, Path],
) -> None:
    check(report_of(secured_cluster[0].bootstrap, "acls", "topics", "configs"), _KAFKA, least=45)


def test_a_controller_with_tls_and_scram_keeps_every_rule(
    secured_cluster: tuple[Cluster, Path], tmp_path: Path
) -> None:
    cluster, client = secured_cluster
    file = tmp_path / "report.json"
    arguments = [cluster.controllers, "--command-config", str(client), "--json", str(file)]
    result = CliRunner().invoke(conform.command, [*arguments, "--timeout", "30"])
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert not {"error", "advice"} & report["counts"].keys()
    outcomes = {line["rule"]: line["outcome"] for line in report["results"]}
    assert outcomes["sasl.wrong-password"] == "pass"
    assert outcomes["sasl.nothing-before-authentication"] == "pass"
    assert outcomes["framing.answered-after-half-close"] == "not applicable"


_FAULTS: dict[str, list[Row]] = {
    "plain": [
        *PRODUCE_FAULTS,
        *SESSION_FAULTS,
        *TRANSACTION_FAULTS,
        *VERSION_FAULTS,
        *VOTER_FAULTS,
    ],
    "secured": ACL_FAULTS,
}


@pytest.mark.parametrize("kind", _FAULTS)
def test_faults_before_a_broker_are_found_by_their_rules(
    cluster: Cluster, secured_cluster: tuple[Cluster, Path], kind: str
) -> None:
    server = (cluster if kind == "plain" else secured_cluster[0]).bootstrap
    with ThreadPoolExecutor(8) as pool:
        pairs = list(pool.map(lambda row: run_with_and_without(server, row), _FAULTS[kind]))
    not_found = [
        f"{name}: {right.outcome}, {wrong.outcome}: {wrong.sentence or right.sentence}"
        for (name, _, _), (right, wrong) in zip(_FAULTS[kind], pairs, strict=True)
        if right.outcome is not Outcome.PASS
        # Rules that wait for the metadata log end by their time.
        or wrong.outcome not in (Outcome.FAIL, Outcome.TIMEOUT)
    ]
    assert not_found == []


def test_every_rule_for_brokers_with_records_has_a_fault() -> None:
    families = ("produce", "idempotence", "transactions", "fetch-sessions", "acls")
    rules = {rule.id for rule in select(server_rules(), patterns=families)}
    tried = {rule for rows in _FAULTS.values() for _, rule, _ in rows}
    assert rules - tried == {
        "acls.without-authorizer",
        "fetch-sessions.full-fetch",
        "fetch-sessions.sessionless",
        "fetch-sessions.unknown-session",
    }
