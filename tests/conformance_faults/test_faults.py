"""Every seeded fault is found by the rule that is named for it, which passes without the fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kwire.conformance.catalog import find_rule, server_rules
from kwire.conformance.connection import open_plain
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome, Result
from kwire.conformance.output.text import report_text
from kwire.conformance.runner import Options, run_rule, run_rules
from kwire.conformance.session import Target
from kwire.frame import frame
from kwire.header import peek
from kwire.protocol import ApiKey
from tests.conformance_faults.faults import FAULTS
from tests.conformance_faults.proxy import Fault, Proxy
from tests.waiting import PATIENCE_S
from tools.gateway_process import gateway

#: Faults that are tried at a time: most of them wait.
_AT_A_TIME = 8


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """``kwire serve`` over the log that the package ships."""
    with gateway("--source", "sample") as running:
        yield running.bootstrap


def _run(server: str, rule_id: str, fault: Fault) -> Result:
    rule = find_rule(rule_id)
    assert rule is not None
    host, _, port = server.rpartition(":")
    plain = open_plain(host, int(port))
    # The versions are asked without the fault: it is the rule that has to find it.
    session = open_session(Target(server, plain, plain), fault.time_s)
    with Proxy(server, fault) as proxy:
        faulty = open_plain("127.0.0.1", proxy.port)
        session.target = Target(proxy.address, faulty, faulty)
        return run_rule(session, rule)


@pytest.fixture(scope="module")
def results(server: str) -> dict[str, Result]:
    """The result of each fault's rule, by the name of the fault."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = pool.map(lambda one: _run(server, one[1], one[2]), FAULTS)
        return {name: result for (name, _, _), result in zip(FAULTS, found, strict=True)}


@pytest.mark.parametrize("name", [name for name, _, _ in FAULTS])
def test_a_fault_is_found_by_its_rule(results: dict[str, Result], name: str) -> None:
    result = results[name]
    wanted = Outcome.TIMEOUT if _fault(name).loses_responses else Outcome.FAIL
    assert result.outcome is wanted, result.sentence
    assert result.sentence


def _fault(name: str) -> Fault:
    return next(fault for known, _, fault in FAULTS if known == name)


def test_a_proxy_without_a_fault_is_not_noticed(server: str) -> None:
    for rule_id in sorted({rule for _, rule, _ in FAULTS}):
        result = _run(server, rule_id, Fault())
        assert result.outcome is Outcome.PASS, f"{rule_id}: {result.sentence}"


class _OfOneApi(Fault):
    """Changes the frames of all responses of one API."""

    def __init__(self, api: ApiKey, change: Callable[[bytes], bytes]) -> None:
        self._api, self._change = api, change

    def response(self, request: bytes, response: bytes) -> list[bytes]:
        return [frame(self._change(response) if peek(request)[0] == self._api else response)]


@pytest.mark.parametrize(
    ("api", "change"),
    [
        (ApiKey.METADATA, lambda data: bytes([data[0] ^ 1]) + data[1:]),
        (ApiKey.LIST_OFFSETS, lambda data: data + b"\0"),
    ],
    ids=["correlation id of Metadata", "another byte behind ListOffsets"],
)
def test_rules_that_need_an_unreadable_answer_are_blocked_by_the_rule_about_it(
    server: str, api: ApiKey, change: Callable[[bytes], bytes]
) -> None:
    host, _, port = server.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(server, plain, plain), PATIENCE_S)
    graded = [rule for rule in server_rules() if rule.api is api or rule.family == "fetch"]
    with Proxy(server, _OfOneApi(api, change)) as proxy:
        faulty = open_plain("127.0.0.1", proxy.port)
        session.target = Target(proxy.address, faulty, faulty)
        report = run_rules(session, graded, Options())
    newest = f"schema.{api.title}.v{session.versions(api)[-1]}.answered"
    failed = {result.rule.id for result in report.failures()}
    blocked = [one for one in report.results if one.outcome is Outcome.BLOCKED]
    assert newest in failed and all(rule_id.startswith("schema.") for rule_id in failed)
    fetches = [one for one in blocked if one.rule.family == "fetch"]
    assert len(fetches) > 15 and {one.blocked_by for one in fetches} == {newest}
    assert report.exit_status() == 1
    head = report_text(report).partition("\n")[0]
    assert head.startswith(f"1 cause, blocks {len(blocked)} rules: answers to {api.title} cannot")
