"""Gives a rule of clients its cluster, its program and its judgements."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from kwire.conformance.client.cluster import Cluster
from kwire.conformance.client.faults import Answer, Fault, names_data
from kwire.conformance.client.program import Running
from kwire.conformance.client.session import ClientSession
from kwire.conformance.client.state import Log, State, fill, new_token
from kwire.conformance.client.traffic import Seen, Traffic
from kwire.conformance.outcome import (
    KafkaDeviates,
    NotApplicable,
    RoundTrip,
    RuleFailed,
)
from kwire.protocol import ApiKey

#: Requests that a report shows: those before the first fault, and those from it on.
_SHOWN_BEFORE: Final = 1
_SHOWN: Final = 8
#: How long a program may take to print what it has fetched, s.
_PRINT_S: Final = 5.0


class ClientProbe:
    """The tools of one check. ``prepare`` makes the cluster and ``start`` runs the program; faults
    and state can change before and after. The runner calls ``close``.
    """

    state: State
    cluster: Cluster
    traffic: Traffic
    running: Running

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.token = new_token()
        self.deadline = time.monotonic() + session.timeout_s
        self._cluster: Cluster | None = None
        self._running: Running | None = None

    # --- cluster and program ------------------------------------------------------------------

    def prepare(self, nodes: int = 1, log: Log | None = None) -> None:
        """Make a cluster whose topic has known records, or ``log``; end what was there before."""
        self.close()
        self.state = State(self.session.command.topic)
        if log is None:
            fill(self.state.log, self.token)
        else:
            self.state.log = log
        self.cluster = self._cluster = Cluster(self.state, nodes)
        self.traffic = self.cluster.traffic
        self.cluster.__enter__()

    def start(self) -> None:
        """Start the program. The time of the check begins."""
        self.deadline = time.monotonic() + self.session.timeout_s
        words = self.session.command.line(self.cluster.bootstrap)
        self.running = self._running = Running(words)

    def stop(self) -> None:
        """End the program."""
        if self._running is not None:
            self._running.stop()

    def close(self) -> None:
        """End the program and the cluster."""
        self.stop()
        if self._cluster is not None:
            self._cluster.close()

    def fault(
        self,
        says: str,
        api: ApiKey | None = None,
        *,
        error: int = 0,
        act: Callable[[Answer], object] | None = None,
        when: Callable[[Seen], bool] | None = None,
        times: int = 1,
    ) -> Fault:
        """Add a fault; see :class:`Fault`. Those of Fetch and Produce need a request with data."""
        if when is None and api in (ApiKey.FETCH, ApiKey.PRODUCE):
            when = names_data
        return self.cluster.fault(Fault(says, api, error, act, when, times))

    def uses(self, api: ApiKey, version: int) -> None:
        """End the check as not applicable unless the program sends ``api`` at ``version`` or
        above.
        """
        _, high = self.session.used.get(api, (-1, -1))
        if high < version:
            sent = f"{api.title} v{high}" if high >= 0 else f"no {api.title}"
            raise NotApplicable(f"the program sends {sent}; the rule is about v{version} and above")

    @property
    def data_api(self) -> ApiKey:
        """Fetch of a program that reads, else Produce."""
        return ApiKey.FETCH if self.session.consumes else ApiKey.PRODUCE

    # --- waiting ------------------------------------------------------------------------------

    def until(self, found: Callable[[], Any], what: str) -> Any:
        """Return the first value of ``found()`` that is not None, False or empty. ``what`` names it
        for the sentence about a program that ended or ran out of time.
        """
        while True:
            ended = self.running.status is not None
            if value := found():
                return value
            self.check_cluster()
            if ended:
                raise RuleFailed(f"the program ended before {what}{self.said()}")
            if time.monotonic() > self.deadline:
                said = self.said()
                self.fail(f"{what} did not come in {self.session.timeout_s:g} s{said}")
            self.traffic.wait(self.deadline)

    def check_cluster(self) -> None:
        """Raise what ended the check in a thread of the cluster."""
        if self.cluster.broken is not None:
            raise self.cluster.broken

    def happened(self, fault: Fault) -> Seen:
        """Wait for the first request with a fault, and return it."""

        def found() -> list[Seen] | bool:
            return fault.happened or self.running.status == 0

        self.until(found, f"the request of the rule ({fault.says})")
        if not fault.happened:
            raise NotApplicable("the program ended before it sent the request of the rule")
        return fault.happened[0]

    def request_after(self, earlier: Seen, api: ApiKey, what: str = "", **more: Any) -> Seen:
        """Wait for a request of ``api`` after another one. ``more`` are fields that it has to have,
        or ``broker``.
        """

        def fits(seen: Seen) -> bool:
            return all(
                getattr(seen if name == "broker" else seen.request, name) == value
                for name, value in more.items()
            )

        def found() -> Seen | None:
            return next((one for one in self.traffic.after(earlier, api) if fits(one)), None)

        seen: Seen = self.until(found, what or f"another {api.title} request")
        return seen

    def during(self, seconds: float) -> None:
        """Let the program run for ``seconds``, but not beyond its deadline or its exit."""
        until = min(time.monotonic() + seconds, self.deadline)
        while time.monotonic() < until and self.running.status is None:
            self.check_cluster()
            self.traffic.wait(until)

    # --- judgements ---------------------------------------------------------------------------

    def has_read_all(self) -> bool:
        """Whether every batch was sent and the client then asked for the end of the log."""
        log = self.state.log
        fetches = self.traffic.all(ApiKey.FETCH)
        return all(
            any(one.answer is not None and batch.data in one.answer for one in fetches)
            for batch in log.batches
            if batch.data and batch.last >= log.start
        ) and any(
            partition.fetch_offset >= log.end
            for _, partition in self.traffic.partitions(ApiKey.FETCH)
        )

    def works(self, *, repeats: bool = False) -> None:
        """Fail unless the program does what it does without faults: it reads every record, or
        writes every record.
        """
        if self.session.consumes:
            self.reads_all(repeats=repeats)
        else:
            self.writes_all()

    def works_or_ends(self) -> None:
        """Fail unless the program works, or ends by itself with an error."""
        try:
            self.works()
        except RuleFailed:
            if not self.running.status:
                raise

    def reads_all(self, values: Sequence[bytes] | None = None, *, repeats: bool = False) -> None:
        """Fail unless the program reads the log to its end and, where it prints records, prints
        each one once in order. ``repeats``: more than once is right, as after a rebalance.
        """
        wanted = self.state.log.values() if values is None else list(values)
        if self.running.status is None:
            end = self.state.log.end
            self.until(
                lambda: self.has_read_all() or self._has_printed(wanted),
                f"a Fetch request at the end of the log, offset {end}",
            )
        if self.session.expects_records:
            self._expect_printed(wanted, repeats)

    def printed(self) -> list[bytes]:
        """The values of this check in the program's output, in order."""
        pattern = re.compile(rb"kwire-" + self.token.encode() + rb"-\d{5}")
        return pattern.findall(self.running.output())

    def _has_printed(self, wanted: Sequence[bytes]) -> bool:
        return self.session.expects_records and set(wanted) <= set(self.printed())

    def _expect_printed(self, wanted: Sequence[bytes], repeats: bool) -> None:
        until = time.monotonic() + _PRINT_S
        while not self._has_printed(wanted) and time.monotonic() < until:
            if self.running.status is not None:
                break
            time.sleep(0.02)
        self.stop()
        found = self.printed()
        counted = Counter(found)  # a program may print a record a million times
        missing = [value for value in wanted if value not in counted]
        extra = counted.keys() - set(wanted)
        twice = [value for value, count in counted.items() if count > 1]
        if missing:
            self.fail(f"{len(missing)} of {len(wanted)} records are not printed{self.said()}")
        if extra:
            self.fail(f"{len(extra)} records are printed that the client should not have got")
        if not repeats:
            self.expect(not twice, f"{len(twice)} of {len(wanted)} records are printed twice")
            self.expect(found == list(wanted), "the records are printed in another order")

    def writes_all(self) -> None:
        """Fail unless the log gets every record that the program writes; of an idempotent producer
        each one once and in order.
        """
        wanted = list(self.session.written)
        self.until(
            lambda: self.running.status is not None or set(wanted) <= set(self._written()),
            "the last record of the program",
        )
        if ApiKey.INIT_PRODUCER_ID in self.session.used:
            self.during(0.3)
        found = self._written()
        missing = len(set(wanted) - set(found))
        self.expect(not missing, f"{missing} of {len(wanted)} records are lost{self.said()}")
        if ApiKey.INIT_PRODUCER_ID in self.session.used:
            self.expect(found == wanted, "the log has the records more than once or in disorder")

    def _written(self) -> list[bytes]:
        with self.state.lock:
            return list(self.state.written)

    def fail(self, sentence: str) -> NoReturn:
        """End the check: the rule is broken. ``sentence`` has the client's behaviour."""
        raise RuleFailed(sentence)

    def expect(self, holds: object, sentence: str) -> None:
        """Fail the rule with ``sentence`` unless ``holds``."""
        if not holds:
            raise RuleFailed(sentence)

    def deviates(self, sentence: str, kafka_class: str) -> NoReturn:
        """End the check: the client breaks the rule in the way ``kafka_class`` of Kafka does."""
        raise KafkaDeviates(sentence, kafka_class)

    def not_applicable(self, sentence: str) -> NoReturn:
        """End the check: the rule cannot be applied to this program."""
        raise NotApplicable(sentence)

    # --- the report ---------------------------------------------------------------------------

    def said(self) -> str:
        """The end of a sentence: exit status and last line of standard error."""
        status, line = self.running.status, self.running.last_error()
        text = "" if status is None else f", with exit status {status}"
        return f"{text}: {line}" if line else text

    def output(self) -> Mapping[str, str]:
        """The exit status of the program and the ends of its output."""
        return {} if self._running is None else self._running.texts()

    def round_trips(self) -> list[RoundTrip]:
        """The requests around the first fault; the last ones if there was none."""
        if self._cluster is None:
            return []
        seen = self.traffic.all()
        faulty = [number for number, one in enumerate(seen) if one.fault]
        start = max(faulty[0] - _SHOWN_BEFORE, 0) if faulty else max(len(seen) - _SHOWN, 0)
        return [_round_trip(one) for one in seen[start : start + _SHOWN]]


def _round_trip(seen: Seen) -> RoundTrip:
    note = f"node {seen.broker}, connection {seen.link.number}"
    if seen.fault:
        note += f", {seen.fault}"
    if seen.api == ApiKey.SASL_AUTHENTICATE:
        return RoundTrip(-1, -1, b"", None, f"{note}: SaslAuthenticate, which has secrets")
    return RoundTrip(seen.api, seen.version, seen.frame, seen.answer, note)
