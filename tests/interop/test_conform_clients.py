"""Stock clients keep the rules of ``kwire conform --client``, but for those that are explained."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.conformance.catalog import client_rules, select
from kwire.conformance.client.opening import open_client
from kwire.conformance.client.program import Command
from kwire.conformance.outcome import Outcome, Report
from kwire.conformance.runner import Options, run_rules
from tests.interop.clients import need_clients
from tests.interop.conftest import FIGURES
from tools import java
from tools.conformance_reports.causes import client_causes

pytestmark = pytest.mark.interop

_TIMEOUT_S = 60.0
_KCAT = ["kcat", "-E", "-q", "-b", "{bootstrap}", "-u", "-f", "%s\\n", "-C", "-t", "{topic}",
         "-p", "0", "-o", "beginning"]  # fmt: skip
#: Few, as each costs the start of a virtual machine. The page of cards has all of them
#: (tools.conformance_reports).
_OF_JAVA = (
    "client-answers.split-every-byte",
    "client-answers.unknown-tags-in-structs",
    "client-close.Fetch-half",
    "client-group.member-id-required",
    "client-metadata.leader-moves",
    "client-records.crc",
)


def graded(words: Sequence[str], patterns: Sequence[str]) -> Report:
    rules = select(client_rules(), patterns=patterns)
    session = open_client(Command(words), _TIMEOUT_S, expects_records=True)
    return run_rules(session, rules, Options(workers=6))


def not_kept(report: Report) -> dict[str, str]:
    return {
        result.rule.id: result.sentence
        for result in report.results
        if result.outcome in (Outcome.FAIL, Outcome.ADVICE, Outcome.TIMEOUT, Outcome.ERROR)
    }


def test_kcat_keeps_the_rules_of_consumers_but_for_those_that_are_explained() -> None:
    need_clients()
    report = graded(_KCAT, [])
    found = not_kept(report)
    explained = {rule for client, rule in client_causes() if client == "kcat"}
    assert {rule: said for rule, said in found.items() if rule not in explained} == {}
    passed = report.counts()[Outcome.PASS]
    assert passed >= 40
    FIGURES.append(f"conform --client, kcat: {passed} rules kept, {report.duration_s:.1f} s")


def test_the_java_client_keeps_rules_of_several_families() -> None:
    need_clients()
    arguments = ["--bootstrap-server", "{bootstrap}", "--topic", "{topic}", "--group", "{group}",
                 "--from-beginning"]  # fmt: skip
    report = graded(java.command(java.CONSOLE_CONSUMER, arguments), _OF_JAVA)
    assert not_kept(report) == {}
    assert report.counts()[Outcome.PASS] == len(_OF_JAVA)
    FIGURES.append(f"conform --client, Java: {report.duration_s:.1f} s")
