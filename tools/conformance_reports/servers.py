"""Grades servers by the rules of ``kwire conform`` and writes ``docs/conformance-servers.md``.

Every server is started for this, so that the rules that need ``--destructive`` run too. A server
whose process ends during the run is graded again with a new process for the rules of each family
and API, and if that one ends, for each rule: so the end is counted for the rule that brought it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kwire.conformance.catalog import server_rules
from kwire.conformance.connection import open_plain
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome, Report, Result
from kwire.conformance.rule import Rule
from kwire.conformance.runner import Options, judged, run_rules
from kwire.conformance.session import Target
from kwire.protocol import ApiKey
from tools.conformance_reports.server_page import PAGE, Card, page
from tools.conformance_reports.server_subjects import Started, Subject, subjects

_TIMEOUT_S: Final = 30.0
_WORKERS: Final = 8
#: Servers that run at once.
_AT_ONCE: Final = 4
#: A process is gone this long after the request that ended it, s.
_ENDS_WITHIN_S: Final = 0.3
_ENDED: Final = "the server ended"
#: Families whose rules are about one version.
_OF_VERSIONS: Final = ("schema", "tolerance", "versions")
_NOT_RUN: Final = (Outcome.NOT_OFFERED, Outcome.NOT_APPLICABLE)


def run(
    address: str,
    rules: Sequence[Rule],
    workers: int = _WORKERS,
    highest: Mapping[ApiKey, int] | None = None,
) -> Report:
    """Run rules against the server at ``address``, with versions of APIs up to ``highest``.

    Raises CannotConnect.
    """
    host, _, port = address.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(address, plain, plain), _TIMEOUT_S)
    limits = {int(api): (session.offered[api][0], high) for api, high in (highest or {}).items()}
    session.offered = {**session.offered, **limits}
    return run_rules(session, rules, Options(workers, destructive=True))


def grade(subject: Subject) -> Report:
    """Run every rule. Raises CannotConnect."""
    with subject.start() as server:
        report = run(server.bootstrap, server_rules())
        lives = server.running()
    if not lives:
        groups: dict[tuple[str, ApiKey | None], list[Rule]] = {}
        for result in report.results:
            if result.outcome not in _NOT_RUN:
                groups.setdefault((result.rule.family, result.rule.api), []).append(result.rule)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = pool.map(lambda rules: _apart(subject, rules), groups.values())
            again = {one.rule.id: one for results in found for one in results}
        report.results = [again.get(one.rule.id, one) for one in report.results]
    if subject.highest:
        _with_older_versions(subject, report)
    return report


def _with_older_versions(subject: Subject, report: Report) -> None:
    """Run rules again that use a faulty version of an API on their way to what they are about."""
    faults = tuple(f"the answer to {api.title} v" for api in subject.highest)
    rules = [
        one.rule
        for one in report.results
        if one.sentence.startswith(faults) and one.rule.family not in _OF_VERSIONS
    ]
    with subject.start() as server:
        found = run(server.bootstrap, rules, highest=subject.highest).results
    again = {one.rule.id: one for one in found}
    report.results = [again.get(one.rule.id, one) for one in report.results]


def _apart(subject: Subject, rules: Sequence[Rule]) -> list[Result]:
    """Run rules on a server of their own, and each on one of its own if that one ends."""
    with subject.start() as server:
        results = run(server.bootstrap, rules, workers=1).results
        if not _ended(server):
            return results
    alone = [_alone(subject, rule) for rule in rules]
    # If no single rule ends the server, those that several rules ended together count.
    return alone if any(_ENDED in one.sentence for one in alone) else results


def _alone(subject: Subject, rule: Rule) -> Result:
    with subject.start() as server:
        [result] = run(server.bootstrap, [rule]).results
        if _ended(server):  # rules that want a closed connection pass by it
            return judged(Result(rule, Outcome.FAIL, f"{_ENDED}: {server.why_it_ended()}"), {})
    return result


def _ended(server: Started) -> bool:
    time.sleep(_ENDS_WITHIN_S)
    return not server.running()


def main(names: Sequence[str]) -> int:
    """Grade the servers, and write the page if no name was given. Returns the exit status."""
    cards = []
    with tempfile.TemporaryDirectory(prefix="server-cards-") as directory:
        for subject in subjects(Path(directory)):
            if names and subject.name not in names:
                continue
            print(f"{subject.title} ...", file=sys.stderr, flush=True)
            cards.append(Card(subject.name, subject.title, subject.version, grade(subject)))
    text, unexplained = page(cards)
    if names:
        print(text, end="")
    else:
        PAGE.write_text(text, encoding="utf-8")
    for line in unexplained:
        print(line, file=sys.stderr)
    return 1 if unexplained else 0
