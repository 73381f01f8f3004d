"""Every mutant of kwire's own server is found by the rule that is named for it, which passes
without the mutant.

Each mutant is a server of its own, in a thread of this process: what it breaks stays its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gateway.config.config import Config
from kwire.conformance.catalog import find_rule
from kwire.conformance.connection import open_plain
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.rule import BROKER, Rule
from kwire.conformance.runner import run_rule
from kwire.conformance.session import Target
from tests.conformance_faults.live_server import Listeners, live_follower, live_server
from tests.conformance_faults.mutants import MUTANTS, put_in
from tests.gateway.server.own_nodes import lone_config
from tests.waiting import PATIENCE_S

#: The time of a rule that waits in vain, s.
_WAIT_S = 1.5
#: The times of rules that let the server wait nearly as long, s.
_TIMES_S = {"fetch.error-does-not-wait": 10.0}
_AT_A_TIME = 8


def _rule(rule_id: str) -> Rule:
    found = find_rule(rule_id)
    assert found is not None, rule_id
    return found


def _config(directory: Path) -> Config:
    return lone_config(directory / "data", group_initial_rebalance_delay_ms=0)


def _live(directory: Path, at_follower: bool) -> AbstractContextManager[Listeners]:
    """A server that leads, or one that follows."""
    return live_follower(directory) if at_follower else live_server(_config(directory))


def _run(listeners: Listeners, rule: Rule, timeout_s: float) -> Result:
    """Run a rule at the listener of its role."""
    at_broker = rule.roles == BROKER or rule.id.endswith(".by-broker")
    address = listeners["PLAINTEXT" if at_broker else "CONTROLLER"]
    host, _, port = address.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(address, plain, plain), timeout_s)
    try:
        return run_rule(session, rule)
    finally:
        session.clean_up()


@pytest.fixture(scope="module", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first server imports modules, which would hold the event loop of a mutant."""
    with live_server(_config(tmp_path_factory.mktemp("first"))) as listeners:
        _run(listeners, _rule("framing.size-zero"), PATIENCE_S)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found_by_its_rule(tmp_path: Path, name: str) -> None:
    mutant = MUTANTS[name]
    rule = _rule(mutant.rule)
    with put_in(name), _live(tmp_path, mutant.at_follower) as listeners:
        result = _run(
            listeners, rule, _WAIT_S if mutant.waits else _TIMES_S.get(rule.id, PATIENCE_S)
        )
    wanted = Outcome.TIMEOUT if mutant.waits else Outcome.FAIL
    assert result.outcome is wanted, f"{result.outcome.value}: {result.sentence}"
    assert result.sentence


@pytest.mark.parametrize("at_follower", [False, True], ids=["leader", "follower"])
def test_a_server_without_a_mutant_keeps_the_rules(tmp_path: Path, at_follower: bool) -> None:
    ids = {one.rule for one in MUTANTS.values() if one.at_follower == at_follower}
    rules = [_rule(rule_id) for rule_id in sorted(ids)]
    with _live(tmp_path, at_follower) as listeners:
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            together = [rule for rule in rules if not rule.alone]
            found = list(pool.map(lambda rule: _run(listeners, rule, PATIENCE_S), together))
        found += [_run(listeners, rule, PATIENCE_S) for rule in rules if rule.alone]
    broken = [f"{one.rule.id}: {one.sentence}" for one in found if one.outcome is not Outcome.PASS]
    assert broken == []


def test_mutants_are_many() -> None:
    assert len(MUTANTS) >= 100
