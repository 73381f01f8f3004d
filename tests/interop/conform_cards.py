"""Runs the rules of ``kwire conform`` against Kafka, and judges the card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.conformance.catalog import select, server_rules
from kwire.conformance.connection import open_plain
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome, Report
from kwire.conformance.runner import Options, run_rules
from kwire.conformance.session import Target
from tests.interop.conftest import FIGURES
from tests.speed import note
from tools.kafka import QUIET

#: Settings of a cluster that the rules need, or that make them wait less.
PROPERTIES: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Rules of sessions wait for the end of one; those of snapshots look at one.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.log.max.snapshot.interval.ms": "3000",
    **QUIET,
}
_NOT_KEPT: Final = (
    Outcome.FAIL,
    Outcome.BLOCKED,
    Outcome.TIMEOUT,
    Outcome.ERROR,
    Outcome.ADVICE,
)


def report_of(
    address: str,
    *families: str,
    destructive: bool = False,
    workers: int = 8,
    allowed: Mapping[str, str] | None = None,
) -> Report:
    """Run the rules, of all families by default, against the server at ``address``. ``allowed``
    maps rules that are known to fail to the reason.
    """
    host, _, port = address.rpartition(":")
    plain = open_plain(host, int(port))
    session = open_session(Target(address, plain, plain), timeout_s=30)
    rules = select(server_rules(), patterns=families)
    return run_rules(session, rules, Options(workers, destructive, allowed or {}))


def check(report: Report, server: str, least: int) -> None:
    """Fail unless ``server`` kept every rule, ``least`` of them without a deviation."""
    counts = report.counts()
    FIGURES.append(
        f"conform, {server} {'/'.join(sorted(role.value for role in report.roles))}: "
        f"{counts[Outcome.PASS]} rules kept, {counts[Outcome.DEVIATION]} deviations, "
        f"{report.duration_s:.1f} s"
    )
    broken = [
        f"{result.rule.id}: {result.sentence}"
        for result in report.results
        if result.outcome in _NOT_KEPT
    ]
    assert broken == [], "\n".join(broken)
    assert report.remarks == []
    assert counts[Outcome.PASS] >= least
    note(f"the card of {server}", report.duration_s, usual_s=20)
