"""Runs rules against a server, several at a time, each within its time, and cleans up behind them.

A check cannot end a run: whatever it raises becomes the outcome of its rule.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from kwire.conformance.connection import PeerClosed
from kwire.conformance.outcome import CheckEnd, Outcome, ProbeTimeout, Report, Result
from kwire.conformance.probe import Probe
from kwire.conformance.rule import Changes, Level, Need, Rule
from kwire.conformance.session import Session
from kwire.errors import WireError

#: Called with each result as it comes, from the thread that called ``run_rules``.
Progress = Callable[[Result], None]


@dataclass(frozen=True)
class Options:
    """How rules are run. ``allowed`` maps ids of rules that are known to fail to the reason."""

    workers: int = 8
    destructive: bool = False
    allowed: Mapping[str, str] = field(default_factory=dict)


def run_rules(
    session: Session, rules: Sequence[Rule], options: Options, progress: Progress | None = None
) -> Report:
    """Run the rules, and return the report with results in the order of ``rules``.

    KeyboardInterrupt ends the run early: checks that run are finished, everything that was made is
    removed, and the report says so.
    """
    started = time.monotonic()
    results: dict[str, Result] = {}
    report = Report(session.target.name, session.roles, dict(session.offered), [])
    stopping = threading.Event()

    def finish(result: Result) -> None:
        result = judged(result, options.allowed)
        results[result.rule.id] = result
        if progress is not None:
            progress(result)

    ready = []
    for rule in rules:
        not_run = reason_not_to_run(session, rule, options)
        if not_run is None:
            ready.append(rule)
        else:
            finish(Result(rule, *not_run))
    try:
        _run_all(session, ready, options.workers, finish, stopping)
    except KeyboardInterrupt:
        report.interrupted = True
    finally:
        report.remarks.extend(session.clean_up())
    report.results = [results[rule.id] for rule in rules if rule.id in results]
    report.duration_s = time.monotonic() - started
    return report


def _run_all(
    session: Session,
    rules: Sequence[Rule],
    workers: int,
    finish: Callable[[Result], None],
    stopping: threading.Event,
) -> None:
    together = [rule for rule in rules if not rule.alone]
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="conform") as pool:
        pending: set[Future[Result | None]] = {
            pool.submit(_run_unless, stopping, session, rule) for rule in together
        }
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    if (result := future.result()) is not None:
                        finish(result)
        except KeyboardInterrupt:
            stopping.set()
            raise
    for rule in rules:
        if rule.alone:
            finish(run_rule(session, rule))


def _run_unless(stopping: threading.Event, session: Session, rule: Rule) -> Result | None:
    return None if stopping.is_set() else run_rule(session, rule)


def run_rule(session: Session, rule: Rule) -> Result:
    """Run one check."""
    started = time.monotonic()
    probe = Probe(session, rule)
    outcome, sentence = Outcome.PASS, ""
    try:
        rule.check(probe)
    except CheckEnd as end:
        outcome, sentence = end.outcome, str(end)
    except PeerClosed:
        outcome, sentence = Outcome.FAIL, "the server closed the connection"
    except TimeoutError:
        outcome, sentence = ProbeTimeout.outcome, "the server did not accept a connection in time"
    except (WireError, OSError) as error:
        outcome, sentence = Outcome.ERROR, f"{type(error).__name__}: {error}"
    except Exception as error:  # a mistake in one check must not hide the results of the others
        outcome, sentence = Outcome.ERROR, f"the check itself failed: {error!r}"
    finally:
        probe.close()
    return Result(rule, outcome, sentence, time.monotonic() - started, probe.round_trips())


def reason_not_to_run(session: Session, rule: Rule, options: Options) -> tuple[Outcome, str] | None:
    """Return outcome and sentence for a rule that is not run, None for one that is."""
    if not rule.roles & session.roles:
        wanted = " or ".join(sorted(role.value for role in rule.roles))
        return Outcome.NOT_APPLICABLE, f"the rule is for a {wanted}"
    for api in rule.apis:
        if api not in session.offered:
            return Outcome.NOT_OFFERED, f"{api.title} is not offered"
    if rule.api is not None and rule.version is not None:
        low, high = session.offered[rule.api]
        if not low <= rule.version <= high:
            return Outcome.NOT_OFFERED, f"{rule.api.title} is offered from v{low} to v{high}"
    unmet = [need for need in rule.needs if not _meets(session, need)]
    if unmet:
        return Outcome.NOT_APPLICABLE, f"the rule needs {unmet[0].value}"
    if rule.changes is Changes.CLUSTER and not options.destructive:
        return Outcome.NOT_TRIED, "the rule changes the cluster: give --destructive"
    return None


def _meets(session: Session, need: Need) -> bool:
    target = session.target
    return {
        Need.PLAIN_SOCKET: not target.has_tls,
        Need.SASL: target.has_sasl,
        Need.NO_SASL: not target.has_sasl,
    }[need]


def judged(result: Result, allowed: Mapping[str, str]) -> Result:
    """Return the result as a report has it: by the level of its rule and the known failures."""
    if result.outcome is Outcome.FAIL and result.rule.level is Level.SHOULD:
        result.outcome = Outcome.ADVICE
    reason = allowed.get(result.rule.id)
    if reason is None:
        return result
    if result.outcome in (Outcome.FAIL, Outcome.TIMEOUT, Outcome.ADVICE):
        result.outcome = Outcome.ALLOWED
        result.sentence = f"{result.sentence} (allowed: {reason})"
    elif result.outcome is Outcome.PASS:
        result.outcome = Outcome.NO_LONGER_FAILS
        result.sentence = "passes, although the list of known failures has it"
    return result
