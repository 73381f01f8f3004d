"""Runs rules against a server, several at a time, each within its time, and cleans up behind them.

A check cannot end a run: whatever it raises becomes the outcome of its rule.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final, Protocol

from kwire.conformance.connection import PeerClosed
from kwire.conformance.outcome import (
    CheckEnd,
    Outcome,
    ProbeTimeout,
    Report,
    Result,
    RoundTrip,
    Unreadable,
)
from kwire.conformance.rule import Level, Rule
from kwire.errors import WireError
from kwire.protocol import ApiKey

#: Bytes of frames that a run keeps for its report. Results behind that keep a little of each.
_FRAMES_KEPT_MAX: Final = 1024 * 1024
_FRAME_KEPT_MIN: Final = 1024

#: Called with each result as it comes, from the thread that called ``run_rules``.
Progress = Callable[[Result], None]


class RunningProbe(Protocol):
    """The tools of a check, as far as the runner knows them."""

    def close(self) -> None: ...
    def round_trips(self) -> Sequence[RoundTrip]: ...
    def output(self) -> Mapping[str, str]: ...


class Subject(Protocol):
    """The server or client that the rules are about."""

    def new_report(self) -> Report: ...
    def why_not(self, rule: Rule, destructive: bool) -> tuple[Outcome, str] | None: ...
    def probe(self, rule: Rule) -> RunningProbe: ...
    def clean_up(self) -> list[str]: ...


@dataclass(frozen=True)
class Options:
    """How rules are run. ``allowed`` maps ids of rules that are known to fail to the reason."""

    workers: int = 8
    destructive: bool = False
    allowed: Mapping[str, str] = field(default_factory=dict)


def run_rules(
    session: Subject, rules: Sequence[Rule], options: Options, progress: Progress | None = None
) -> Report:
    """Run the rules, and return the report with results in the order of ``rules``.

    KeyboardInterrupt ends the run early: checks that run are finished, everything that was made is
    removed, and the report says so.
    """
    started = time.monotonic()
    results: dict[str, Result] = {}
    report = session.new_report()
    stopping = threading.Event()
    kept = 0

    def finish(result: Result) -> None:
        nonlocal kept
        result = judged(result, options.allowed)
        if result.outcome is Outcome.PASS:  # the report shows the frames of other rules only
            result.round_trips = ()
        kept += _shortened(result.round_trips, _FRAMES_KEPT_MAX - kept)
        results[result.rule.id] = result
        if progress is not None:
            progress(result)

    ready = []
    for rule in rules:
        not_run = session.why_not(rule, options.destructive)
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
    mark_blocked(report.results)
    report.duration_s = time.monotonic() - started
    return report


def _run_all(
    session: Subject,
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
                done, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    pending.discard(future)
                    if (result := future.result()) is not None:
                        finish(result)
        except KeyboardInterrupt:
            # Checks that run have changed the server already: their results belong to the report.
            stopping.set()
            for future in pending:
                if (result := future.result()) is not None:
                    finish(result)
            raise
    for rule in rules:
        if rule.alone:
            finish(run_rule(session, rule))


def _run_unless(stopping: threading.Event, session: Subject, rule: Rule) -> Result | None:
    return None if stopping.is_set() else run_rule(session, rule)


def run_rule(session: Subject, rule: Rule) -> Result:
    """Run one check."""
    started = time.monotonic()
    probe = session.probe(rule)
    outcome, sentence, unreadable = Outcome.PASS, "", None
    try:
        rule.check(probe)
    except Unreadable as end:
        outcome, sentence, unreadable = end.outcome, str(end), end.answer
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
    duration_s = time.monotonic() - started
    return Result(
        rule, outcome, sentence, duration_s, probe.round_trips(), probe.output(), unreadable
    )


def mark_blocked(results: Sequence[Result]) -> None:
    """Give the outcome BLOCKED to rules that failed for an answer that a failed rule is about.

    That rule is one of the API and version of the answer, else one of the API. Without such a rule
    among ``results`` nothing else tells of the fault, and the failures stay.
    """
    tellers: dict[tuple[ApiKey, int | None], list[str]] = {}
    for one in results:
        if one.outcome is Outcome.FAIL and one.unreadable and one.rule.api == one.unreadable[0]:
            is_of_version = one.rule.version == one.unreadable[1]
            about = one.unreadable[0], one.rule.version if is_of_version else None
            tellers.setdefault(about, []).append(one.rule.id)
    for one in results:
        if one.unreadable is None or one.outcome not in (Outcome.FAIL, Outcome.ADVICE):
            continue
        told = tellers.get(one.unreadable) or tellers.get((one.unreadable[0], None), [])
        if told and one.rule.id not in told:
            one.outcome, one.blocked_by = Outcome.BLOCKED, told[0]


def _shortened(round_trips: Sequence[RoundTrip], left: int) -> int:
    """Shorten the frames if they are more than ``left`` bytes. Returns their size."""
    if sum(len(one.sent) + len(one.received or b"") for one in round_trips) > left:
        for one in round_trips:
            one.sent = one.sent[:_FRAME_KEPT_MIN]
            one.received = None if one.received is None else one.received[:_FRAME_KEPT_MIN]
    return sum(len(one.sent) + len(one.received or b"") for one in round_trips)


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
