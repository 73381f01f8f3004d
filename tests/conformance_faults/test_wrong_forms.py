"""Every rule that is alike for all APIs is broken by a server whose answers have a wrong form.

``tests/interop/test_conform_kafka.py`` has the server without the fault: Kafka.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.probe import Probe
from kwire.conformance.rule import Rule
from kwire.conformance.runner import run_rule
from kwire.conformance.session import Session
from tests.conformance_faults.wrong_forms import WRONG_FORMS, answers, closes, offered
from tests.kwire.conformance.scripted import Script, bare_server
from tests.waiting import PATIENCE_S

_AT_A_TIME = 4


def _run(script: Script) -> list[Result]:
    rules = [rule for rule, one in WRONG_FORMS if one is script]
    with bare_server(script) as target:

        def run(rule: Rule) -> Result:
            return run_rule(Session(target, offered(rule), PATIENCE_S, Probe), rule)

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return list(pool.map(run, rules))


def test_every_rule_is_broken_by_its_server() -> None:
    results = [*_run(answers), *_run(closes)]
    assert len(results) == len(WRONG_FORMS) > 1000
    kept = [f"{one.rule.id}: {one.outcome}" for one in results if one.outcome is not Outcome.FAIL]
    assert kept == []
