"""Every fault of a quorum's leader is found by the rule that is named for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kwire.conformance.catalog import families, find_rule
from kwire.conformance.connection import open_plain
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.runner import run_rule
from kwire.conformance.session import Target
from tests.conformance_faults.changes import Row
from tests.conformance_faults.controller_faults import BROKER_FAULTS, CONTROLLER_FAULTS, NOT_OFFERED
from tests.conformance_faults.proxy import Fault, Proxy
from tests.conformance_faults.quorum_faults import ELECTION_FAULTS, QUORUM_FAULTS
from tests.conformance_faults.quorum_state_faults import DESCRIBE_FAULTS, SNAPSHOT_FAULTS
from tests.waiting import PATIENCE_S, until
from tools.gateway_process import gateway

_AT_A_TIME = 8
_TOGETHER = (*QUORUM_FAULTS, *DESCRIBE_FAULTS, *SNAPSHOT_FAULTS, *CONTROLLER_FAULTS, *BROKER_FAULTS)
_FAULTS = (*_TOGETHER, *ELECTION_FAULTS)
_FAMILIES = (
    "raft",
    "vote",
    "quorum-epochs",
    "replica-fetch",
    "describe-quorum",
    "snapshots",
    "registration",
    "broker-heartbeat",
    "alter-partition",
    "forwarding",
    "voters",
    "metadata-records",
)
#: Rules for nodes that do not lead, which a quorum of one does not have.
_OF_FOLLOWERS = {
    "quorum-epochs.end-at-follower",
    "replica-fetch.not-leader",
    "describe-quorum.not-leader",
    "registration.not-controller",
    "alter-partition.not-controller",
    "forwarding.not-controller",
    "voters.add-not-leader",
}
#: A record that another rule writes would end the wait.
_WAITS = "replica-fetch.waits-no-longer"
#: Elections as quick as a busy machine allows; a log that stands still in between.
_OPTIONS = (
    *("--controller-quorum-election-timeout-ms", "300"),
    *("--controller-quorum-fetch-timeout-ms", "600"),
    *("--metadata-max-idle-interval-ms", "0"),
    *("--broker-session-timeout-ms", "3000"),
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The server for a rule: the controllers' or the clients' listener of a quorum of one, or the
    controllers' listener of another one, whose log has a snapshot and stands still.
    """
    where: Path = tmp_path_factory.mktemp("quorum")
    every = ("--metadata-log-max-snapshot-interval-ms", "1000")
    with (
        gateway(
            "--process-roles", "controller", "--data-dir", str(where / "busy"), *_OPTIONS
        ) as busy,
        gateway(
            "--process-roles", "controller", "--data-dir", str(where / "still"), *_OPTIONS, *every
        ) as still,
    ):
        until(
            lambda: list((where / "still").rglob("*[1-9]*-*.checkpoint")),
            "the quorum writes a snapshot",
        )

        def of(rule_id: str) -> str:
            if rule_id.startswith("snapshots.") or rule_id == _WAITS:
                return str(still.ready["listeners"]["CONTROLLER"])
            by_broker = rule_id.endswith(".by-broker")
            return str(busy.ready["listeners"]["PLAINTEXT" if by_broker else "CONTROLLER"])

        yield of


def _run(server: str, rule_id: str, fault: Fault) -> Result:
    rule = find_rule(rule_id)
    assert rule is not None, rule_id
    host, _, port = server.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(server, plain, plain), PATIENCE_S)
    with Proxy(server, fault) as proxy:
        faulty = open_plain("127.0.0.1", proxy.port)
        session.target = Target(proxy.address, faulty, faulty)
        result = run_rule(session, rule)
    session.target = Target(server, plain, plain)
    session.clean_up()
    return result


@pytest.fixture(scope="module")
def results(servers: Callable[[str], str]) -> dict[str, Result]:
    """The result of each fault's rule, by the name of the fault."""

    def run(row: Row) -> Result:
        return _run(servers(row[1]), row[1], row[2])

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = dict(zip((row[0] for row in _TOGETHER), pool.map(run, _TOGETHER), strict=True))
    return found | {row[0]: run(row) for row in ELECTION_FAULTS}


@pytest.mark.parametrize("name", [name for name, _, _ in _FAULTS])
def test_a_fault_is_found_by_its_rule(results: dict[str, Result], name: str) -> None:
    result = results[name]
    assert result.outcome is Outcome.FAIL, f"{result.outcome}: {result.sentence}"
    assert result.sentence


def test_a_leader_without_a_fault_keeps_the_rules(servers: Callable[[str], str]) -> None:
    def run(rule_id: str) -> Result:
        return _run(servers(rule_id), rule_id, Fault())

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = list(pool.map(run, sorted({rule for _, rule, _ in _TOGETHER})))
    found += [run(rule_id) for _, rule_id, _ in ELECTION_FAULTS]
    broken = [f"{one.rule.id}: {one.sentence}" for one in found if one.outcome is not Outcome.PASS]
    assert broken == []


def test_every_rule_of_a_leader_has_a_fault() -> None:
    rules = {rule.id for family in families() if family.name in _FAMILIES for rule in family}
    assert rules - {rule for _, rule, _ in _FAULTS} == rules & (_OF_FOLLOWERS | NOT_OFFERED)


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [name for name, _, _ in _FAULTS]
    assert len(set(names)) == len(names)
