"""Every fault of a broker is found by the rule that is named for it, which passes without it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kwire.conformance.catalog import families, find_rule
from kwire.conformance.connection import open_plain
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.runner import Options, run_rule, run_rules
from kwire.conformance.session import Target
from tests.conformance_faults.changes import Row
from tests.conformance_faults.connection_faults import CONNECTION_FAULTS
from tests.conformance_faults.faults import FAULTS
from tests.conformance_faults.group_faults import GROUP_FAULTS, OFFSET_FAULTS
from tests.conformance_faults.proxy import Proxy
from tests.conformance_faults.read_faults import (
    FETCH_FAULTS,
    LIST_OFFSETS_FAULTS,
    METADATA_FAULTS,
)
from tests.conformance_faults.topic_faults import CONFIG_FAULTS, TOPIC_FAULTS
from tests.waiting import PATIENCE_S
from tools.gateway_process import gateway

_AT_A_TIME = 8
_FAULTS: list[Row] = [
    *METADATA_FAULTS,
    *LIST_OFFSETS_FAULTS,
    *FETCH_FAULTS,
    *GROUP_FAULTS,
    *OFFSET_FAULTS,
    *TOPIC_FAULTS,
    *CONFIG_FAULTS,
    *CONNECTION_FAULTS,
]
_FAMILIES = (
    "metadata", "list-offsets", "fetch", "fetch-epochs", "fetch-sessions", "groups", "offsets",
    "topics", "configs", "framing", "api-versions",
)  # fmt: skip
#: Rules that need records of their own or fetch sessions, which kwire does not have.
_OF_KAFKA = {
    "fetch.waits-for-bytes",
    "fetch.whole-partition-is-read",
    "fetch-sessions.closed-session",
    "fetch-sessions.epochs-count",
    "fetch-sessions.forgotten",
    "fetch-sessions.incremental",
    "fetch-sessions.incremental-with-records",
    "fetch-sessions.wrong-epoch",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The clients' listener of a quorum of one."""
    where: Path = tmp_path_factory.mktemp("quorum")
    with gateway("--process-roles", "controller", "--data-dir", str(where / "data")) as running:
        yield running.bootstrap


def run_with_and_without(server: str, row: Row) -> tuple[Result, Result]:
    """Run the rule without and then with the fault, with what it shares made without it."""
    _, rule_id, fault = row
    rule = find_rule(rule_id)
    assert rule is not None, rule_id
    host, _, port = server.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(server, plain, plain), PATIENCE_S)
    right = run_rule(session, rule)
    with Proxy(server, fault) as proxy:
        faulty = open_plain("127.0.0.1", proxy.port)
        session.target, session.timeout_s = Target(proxy.address, faulty, faulty), fault.time_s
        wrong = run_rule(session, rule)
    session.target = Target(server, plain, plain)
    session.clean_up()
    return right, wrong


@pytest.fixture(scope="module")
def results(server: str) -> dict[str, tuple[Result, Result]]:
    """The results of each fault's rule, by the name of the fault."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = pool.map(lambda row: run_with_and_without(server, row), _FAULTS)
        return {row[0]: pair for row, pair in zip(_FAULTS, found, strict=True)}


@pytest.mark.parametrize("name", [name for name, _, _ in _FAULTS])
def test_a_fault_is_found_by_its_rule(results: dict[str, tuple[Result, Result]], name: str) -> None:
    right, wrong = results[name]
    assert right.outcome is Outcome.PASS, f"without the fault: {right.sentence}"
    fault = next(one for known, _, one in _FAULTS if known == name)
    wanted = Outcome.TIMEOUT if fault.loses_responses else Outcome.FAIL
    assert wrong.outcome is wanted, f"{wrong.outcome}: {wrong.sentence}"
    assert wrong.sentence


def test_transactions_do_not_apply_to_a_server_that_takes_no_records(server: str) -> None:
    host, _, port = server.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(server, plain, plain), timeout_s=10)
    rules = [rule for family in families() if family.name == "transactions" for rule in family]
    report = run_rules(session, rules, Options(len(rules), destructive=True))
    found = {one.rule.id: one.outcome for one in report.results}
    assert found == dict.fromkeys((rule.id for rule in rules), Outcome.NOT_APPLICABLE)


def test_every_rule_has_a_fault() -> None:
    rules = {rule.id for family in families() if family.name in _FAMILIES for rule in family}
    tried = {rule for _, rule, _ in (*_FAULTS, *FAULTS)}
    assert rules - tried == _OF_KAFKA | {"api-versions.no-removed-versions"}


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [name for name, _, _ in _FAULTS]
    assert len(set(names)) == len(names)
