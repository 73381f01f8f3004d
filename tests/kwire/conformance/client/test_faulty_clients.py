"""Each fault of a small client is found by the rule that is named for it, every rule of clients has
a fault, and without a fault the small clients keep the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from unittest import mock

import pytest

from kwire.conformance.catalog import client_rules, find_rule
from kwire.conformance.client.opening import open_client
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.program import Command
from kwire.conformance.client.session import ClientSession
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.rule import Rule
from kwire.conformance.runner import judged, run_rule
from tests.kwire.conformance.client.small.fault_table import (
    CLIENT_FAULTS,
    SENTENCES,
    ClientFault,
)
from tests.kwire.conformance.client.small.run import Threaded

_MODULE = "tests.kwire.conformance.client.small"
#: The time of a rule, s: a loaded machine needs more than a fault that ends with it.
_TIMEOUT_S = 3.0
_GOOD_TIMEOUT_S = 30.0
#: Rules that watch a client for several seconds need more.
_LONG = {"client-sasl.session-ends": 8.0, "client-sasl.authenticates-again": 8.0}
_AT_A_TIME = 8
_KINDS = ("consumer", "member", "producer", "sasl")


def _command(kind: str, fault: str) -> Command:
    return Command([sys.executable, "-m", _MODULE, kind, fault, "{bootstrap}", "{topic}"])


def _rule(rule_id: str) -> Rule:
    found = find_rule(rule_id)
    assert found is not None, rule_id
    return found


@pytest.fixture(scope="module")
def in_threads() -> Iterator[None]:
    """The clients run in threads of this process."""
    with mock.patch("kwire.conformance.client.probe.Running", Threaded):
        yield


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(_AT_A_TIME) as made:
        yield made


@pytest.fixture(scope="module")
def run(in_threads: None, pool: ThreadPoolExecutor) -> Callable[[ClientFault], Result]:
    """``run(ClientFault(kind, fault, rule))`` runs the rule on the client."""
    learned = pool.map(
        lambda kind: open_client(
            _command(kind, "none"), _GOOD_TIMEOUT_S, expects_records=kind != "producer"
        ),
        _KINDS,
    )
    known = dict(zip(_KINDS, learned, strict=True))

    def run_one(row: ClientFault) -> Result:
        if row.fault != "none":
            result = run_for(row, _LONG.get(row.rule, _TIMEOUT_S))
            if result.outcome is not Outcome.TIMEOUT:
                return result
            # No fault is found by the end of the time alone: the machine was slow.
        return run_for(row, _GOOD_TIMEOUT_S)

    def run_for(row: ClientFault, timeout_s: float) -> Result:
        good, rule = known[row.kind], _rule(row.rule)
        session = ClientSession(
            _command(row.kind, row.fault),
            timeout_s,
            ClientProbe,
            good.expects_records,
            good.used,
            good.written,
        )
        not_run = session.why_not(rule, False)
        result = run_rule(session, rule) if not_run is None else Result(rule, *not_run)
        return judged(result, {})

    return run_one


@pytest.fixture(scope="module")
def results(
    run: Callable[[ClientFault], Result], pool: ThreadPoolExecutor
) -> dict[ClientFault, Future[Result]]:
    """The result of each fault's rule, and that of the same rule without the fault; the rules run
    beside each other.
    """
    rows = [*CLIENT_FAULTS, *(row._replace(fault="none") for row in CLIENT_FAULTS)]
    return {row: pool.submit(run, row) for row in dict.fromkeys(rows)}


@pytest.mark.parametrize("row", CLIENT_FAULTS, ids=lambda row: row.rule)
def test_a_fault_is_found_by_its_rule(
    results: dict[ClientFault, Future[Result]], row: ClientFault
) -> None:
    right, wrong = results[row._replace(fault="none")].result(), results[row].result()
    assert right.outcome is Outcome.PASS, f"without the fault: {right.sentence}"
    assert wrong.outcome in (Outcome.FAIL, Outcome.ADVICE), f"{wrong.outcome}: {wrong.sentence}"
    assert wrong.sentence


def test_every_rule_of_clients_has_a_fault() -> None:
    assert {rule.id for rule in client_rules()} == {row.rule for row in CLIENT_FAULTS}
    assert {row.fault for row in CLIENT_FAULTS} == SENTENCES.keys()
