"""Every fault of a listener with SASL is found by its rule, which passes without it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.base.address import parse_address
from gateway.cli.conform_connect import target_of
from gateway.security.client_properties import client_security
from kwire.conformance.catalog import find_rule, select, server_rules
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.runner import Options, run_rule, run_rules
from kwire.conformance.session import Target
from tests.conformance_faults.changes import Row
from tests.conformance_faults.connection_faults import SASL_FAULTS
from tests.conformance_faults.proxy import Proxy
from tests.waiting import PATIENCE_S
from tools.gateway_process import gateway
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    properties_text,
    sasl_client_properties,
    sasl_server_properties,
)

_AT_A_TIME = 8
_LISTENER = "SASL_PLAINTEXT://127.0.0.1:0"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A listener with SASL_PLAINTEXT of a quorum of one."""
    where: Path = tmp_path_factory.mktemp("sasl")
    file = where / "server.properties"
    values = sasl_server_properties("sasl_plaintext") | {
        "listeners": _LISTENER,
        "connection.failed.authentication.delay.ms": "10",
    }
    file.write_text(properties_text(values))
    source = ("--process-roles", "controller", "--data-dir", str(where / "data"))
    with gateway("--config", str(file), "--listeners", _LISTENER, *source) as running:
        yield running.bootstrap


def _target(address: str, mechanism: str = "PLAIN") -> Target:
    values = {"security.protocol": "SASL_PLAINTEXT"}
    values |= sasl_client_properties(mechanism, ADMIN, ADMIN_PASSWORD)
    return target_of(parse_address(address), client_security(values))


def _run(server: str, row: Row) -> tuple[Result, Result]:
    _, rule_id, fault = row
    rule = find_rule(rule_id)
    assert rule is not None, rule_id
    session = open_session(_target(server), PATIENCE_S)
    right = run_rule(session, rule)
    with Proxy(server, fault) as proxy:
        session.target = _target(proxy.address)
        return right, run_rule(session, rule)


@pytest.fixture(scope="module")
def results(server: str) -> dict[str, tuple[Result, Result]]:
    """The results of each fault's rule, by the name of the fault."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = pool.map(lambda row: _run(server, row), SASL_FAULTS)
        return {row[0]: pair for row, pair in zip(SASL_FAULTS, found, strict=True)}


@pytest.mark.parametrize("name", [name for name, _, _ in SASL_FAULTS])
def test_a_fault_is_found_by_its_rule(results: dict[str, tuple[Result, Result]], name: str) -> None:
    right, wrong = results[name]
    assert right.outcome is Outcome.PASS, f"without the fault: {right.sentence}"
    assert wrong.outcome is Outcome.FAIL, f"{wrong.outcome}: {wrong.sentence}"


def test_every_rule_of_sasl_has_a_fault() -> None:
    rules = {rule.id for rule in select(server_rules(), patterns=["sasl"])}
    tried = {rule for _, rule, _ in SASL_FAULTS}
    assert rules - tried == {"sasl.no-sasl-here", "sasl.no-authenticate-here"}


def test_rules_run_on_authenticated_connections(server: str) -> None:
    session = open_session(_target(server), PATIENCE_S)
    rules = select(server_rules(), patterns=["framing", "api-versions", "metadata"])
    report = run_rules(session, rules, Options())
    assert [result.sentence for result in report.failures()] == []
    assert report.counts()[Outcome.PASS] > 60
