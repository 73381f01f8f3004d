"""Every fault of a quorum's leader is found by the rule that is named for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kwire.conformance.catalog import families, find_rule
from kwire.conformance.connection import open_plain
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.runner import run_rule
from kwire.conformance.session import Target, open_session
from tests.conformance_faults.changes import Row
from tests.conformance_faults.proxy import Fault, Proxy
from tests.conformance_faults.quorum_faults import ELECTION_FAULTS, QUORUM_FAULTS
from tests.conformance_faults.quorum_state_faults import DESCRIBE_FAULTS, SNAPSHOT_FAULTS
from tools.gateway_process import gateway

_TIMEOUT_S = 6.0
_AT_A_TIME = 8
_TOGETHER = (*QUORUM_FAULTS, *DESCRIBE_FAULTS, *SNAPSHOT_FAULTS)
_FAULTS = (*_TOGETHER, *ELECTION_FAULTS)
_FAMILIES = ("raft", "vote", "quorum-epochs", "replica-fetch", "describe-quorum", "snapshots")
#: Rules for nodes that do not lead, which a quorum of one does not have.
_OF_FOLLOWERS = {
    "quorum-epochs.end-at-follower",
    "replica-fetch.not-leader",
    "describe-quorum.not-leader",
}
#: Elections as quick as a busy machine allows; a log that stands still in between.
_OPTIONS = (
    *("--controller-quorum-election-timeout-ms", "300"),
    *("--controller-quorum-fetch-timeout-ms", "600"),
    *("--metadata-max-idle-interval-ms", "0"),
)


@pytest.fixture(scope="module")
def leader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The controllers' listener of a quorum of one."""
    where: Path = tmp_path_factory.mktemp("quorum")
    with gateway("--source", "own", "--data-dir", str(where / "data"), *_OPTIONS) as running:
        yield running.ready["listeners"]["CONTROLLER"]


@pytest.fixture(scope="module")
def with_snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The controllers' listener of a quorum of one whose log has a snapshot."""
    where: Path = tmp_path_factory.mktemp("snapshots")
    every = ("--metadata-log-max-snapshot-interval-ms", "1000")
    with gateway(
        "--source", "own", "--data-dir", str(where / "data"), *_OPTIONS, *every
    ) as running:
        _wait_for(lambda: list(where.rglob("*[1-9]*-*.checkpoint")))
        yield running.ready["listeners"]["CONTROLLER"]


def _wait_for(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not found():
        assert time.monotonic() < deadline, "the quorum wrote no snapshot"
        time.sleep(0.05)


def _run(server: str, rule_id: str, fault: Fault) -> Result:
    rule = find_rule(rule_id)
    assert rule is not None, rule_id
    host, _, port = server.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(server, plain, plain), _TIMEOUT_S)
    with Proxy(server, fault) as proxy:
        faulty = open_plain("127.0.0.1", proxy.port)
        session.target = Target(proxy.address, faulty, faulty)
        result = run_rule(session, rule)
    session.target = Target(server, plain, plain)
    session.clean_up()
    return result


@pytest.fixture(scope="module")
def results(leader: str, with_snapshot: str) -> dict[str, Result]:
    """The result of each fault's rule, by the name of the fault."""

    def run(row: Row) -> Result:
        return _run(with_snapshot if row in SNAPSHOT_FAULTS else leader, row[1], row[2])

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = dict(zip((row[0] for row in _TOGETHER), pool.map(run, _TOGETHER), strict=True))
    return found | {row[0]: run(row) for row in ELECTION_FAULTS}


@pytest.mark.parametrize("name", [name for name, _, _ in _FAULTS])
def test_a_fault_is_found_by_its_rule(results: dict[str, Result], name: str) -> None:
    result = results[name]
    assert result.outcome is Outcome.FAIL, f"{result.outcome}: {result.sentence}"
    assert result.sentence


def test_a_leader_without_a_fault_keeps_the_rules(leader: str, with_snapshot: str) -> None:
    def run(rule_id: str) -> Result:
        at = with_snapshot if rule_id.startswith("snapshots.") else leader
        return _run(at, rule_id, Fault())

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = list(pool.map(run, sorted({rule for _, rule, _ in _TOGETHER})))
    found += [run(rule_id) for _, rule_id, _ in ELECTION_FAULTS]
    broken = [f"{one.rule.id}: {one.sentence}" for one in found if one.outcome is not Outcome.PASS]
    assert broken == []


def test_every_rule_of_a_leader_has_a_fault() -> None:
    rules = {rule.id for family in families() if family.name in _FAMILIES for rule in family}
    assert rules - {rule for _, rule, _ in _FAULTS} == rules & _OF_FOLLOWERS


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [name for name, _, _ in _FAULTS]
    assert len(set(names)) == len(names)
