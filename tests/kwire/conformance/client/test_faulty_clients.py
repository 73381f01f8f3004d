"""Each fault of a small client is found by the rule that is named for it. Without a fault the small
client keeps these rules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from kwire.conformance.catalog import client_rules, find_rule
from kwire.conformance.client.program import Command
from kwire.conformance.client.session import ClientSession
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.rule import Rule
from kwire.conformance.runner import judged, run_rule
from kwire.protocol import ApiKey

#: Fault of the small client -> the rule that finds it.
FAULTS = {
    "recv-is-frame": "client-answers.split-every-byte",
    "no-header-tags": "client-answers.unknown-tags-in-header",
    "no-tags": "client-answers.unknown-tags-in-body",
    "negative-size": "client-answers.negative-size",
    "any-id": "client-answers.other-correlation-id",
    "prints-twice": "client-answers.slow",
    "dies-on-close": "client-close.Fetch",
    "hammers": "client-close.reconnects-slowly",
    "no-throttle": "client-throttle.Fetch",
    "highest-version": "client-versions.newer-server",
    "own-versions": "client-versions.older-server",
    "no-fallback": "client-versions.refused",
    "no-topic": "client-metadata.unknown-topic",
    "stays": "client-metadata.leader-moves",
    "bootstrap-only": "client-metadata.advertised-leader",
    "any-epoch": "client-metadata.epoch-goes-back",
    "no-unknown-error": "client-fetch.unknown-error",
    "repeats": "client-fetch.offset-out-of-range",
    "keeps-session": "client-fetch.session-lost",
    "no-crc": "client-records.crc",
    "no-cut-batch": "client-records.cut-batch",
    "no-skip": "client-records.begins-inside-batch",
    "counts-records": "client-records.gaps",
    "prints-control": "client-records.control-batch",
    "prints-aborted": "client-records.aborted-transaction",
}
#: The time of a rule, s: a loaded machine needs more than a fault that ends with it.
_TIMEOUT_S = 3.0
_GOOD_TIMEOUT_S = 30.0
_AT_A_TIME = 4


def _run(fault: str, rule: Rule) -> Result:
    module = "tests.kwire.conformance.client.small_client"
    command = Command([sys.executable, "-m", module, fault, "{bootstrap}", "{topic}"])
    timeout_s = _GOOD_TIMEOUT_S if fault == "none" else _TIMEOUT_S
    used: dict[int, tuple[int, int]] = {
        ApiKey.API_VERSIONS: (4, 4), ApiKey.METADATA: (12, 12), ApiKey.LIST_OFFSETS: (8, 8),
        ApiKey.FETCH: (12, 12),
    }  # fmt: skip
    session = ClientSession(command, timeout_s, expects_records=True, used=used)
    not_run = session.why_not(rule, False)
    result = run_rule(session, rule) if not_run is None else Result(rule, *not_run)
    return judged(result, {})


def _rule(rule_id: str) -> Rule:
    found = find_rule(rule_id)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def results() -> Callable[[str], Result]:
    """The result of each fault's rule; the rules run beside each other."""
    pool = ThreadPoolExecutor(_AT_A_TIME)
    futures: dict[str, Future[Result]] = {
        fault: pool.submit(_run, fault, _rule(rule)) for fault, rule in FAULTS.items()
    }
    return lambda fault: futures[fault].result()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_rule(results: Callable[[str], Result], fault: str) -> None:
    result = results(fault)
    assert result.outcome in (Outcome.FAIL, Outcome.ADVICE), result.sentence
    assert result.sentence


def test_a_client_without_a_fault_keeps_the_rules() -> None:
    rules = [rule for rule in client_rules() if rule.id in FAULTS.values()]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = list(pool.map(lambda rule: _run("none", rule), rules))
    broken = [f"{one.rule.id}: {one.sentence}" for one in found if one.outcome is not Outcome.PASS]
    assert broken == []
