"""Knows the program of a run: its command, the APIs that it uses, and the records that it writes.

``open_client`` runs it once against a cluster that behaves, to learn both.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kwire.conformance.client.program import Command
from kwire.conformance.outcome import CheckEnd, Outcome, Report
from kwire.conformance.rule import CLIENT, Rule
from kwire.conformance.session import CannotTry
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.conformance.client.probe import ClientProbe

#: How long the first run waits for the first commit of a group, s: clients commit every 5 s.
_COMMIT_S: Final = 6.5
#: A producer is taken to be at its end if it has been silent for so long, s.
_SILENT_S: Final = 1.5


@dataclass
class ClientSession:
    """The state that the checks of a run share. ``timeout_s`` is the time of one check.

    ``expects_records``: the program prints the value of each record to standard output, in any form
    and once. ``used`` maps APIs to the (lowest, highest) version that the program sent, ``written``
    has the values that it wrote.
    """

    command: Command
    timeout_s: float
    expects_records: bool = False
    used: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    written: tuple[bytes, ...] = ()

    @property
    def consumes(self) -> bool:
        """Whether the program reads records."""
        return ApiKey.FETCH in self.used

    @property
    def produces(self) -> bool:
        """Whether the program writes records."""
        return ApiKey.PRODUCE in self.used

    def new_report(self) -> Report:
        """Return a report without results. Its versions are those that the client sends."""
        return Report(" ".join(self.command.words), CLIENT, dict(self.used), [])

    def why_not(self, rule: Rule, destructive: bool) -> tuple[Outcome, str] | None:
        """Return outcome and sentence for a rule that is not run, None for one that is."""
        for api in rule.apis:
            if api not in self.used:
                return Outcome.NOT_APPLICABLE, f"the program sends no {api.title}"
        return None

    def probe(self, rule: Rule) -> ClientProbe:
        """Return the tools of one check."""
        from kwire.conformance.client.probe import ClientProbe

        return ClientProbe(self)

    def clean_up(self) -> list[str]:
        """Return nothing: every check ends its program and its cluster."""
        return []


def open_client(command: Command, timeout_s: float, *, expects_records: bool) -> ClientSession:
    """Run the program once. Raises CannotTry, with the reason, if it neither reads nor writes."""
    from kwire.conformance.client.probe import ClientProbe

    if problem := command.problem():
        raise CannotTry(problem)
    session = ClientSession(command, timeout_s, expects_records)
    probe = ClientProbe(session)
    try:
        probe.prepare(nodes=2)
        probe.start()
        _wait(probe, timeout_s)
        session.used = _used(probe)
        if not session.consumes and not session.produces:
            raise CannotTry(f"the program neither fetches nor produces{probe.said()}")
        if session.consumes:
            probe.reads_all()
        probe.stop()
        # A consumer commits and leaves its group at its end.
        session.used = _used(probe)
        session.written = tuple(probe.state.written)
    except CheckEnd as end:
        raise CannotTry(f"against a cluster that behaves: {end}") from None
    finally:
        probe.close()
    return session


def _wait(probe: ClientProbe, timeout_s: float) -> None:
    """Wait until the program has done what it does: read the log, written its records."""
    started = time.monotonic()
    deadline = started + timeout_s
    while time.monotonic() < deadline and probe.running.status is None:
        now, traffic = time.monotonic(), probe.traffic
        produced = traffic.all(ApiKey.PRODUCE)
        written = produced and now > produced[-1].at + _SILENT_S
        if probe.has_read_all() or written:
            joined = traffic.all(ApiKey.JOIN_GROUP)
            if not joined or traffic.all(ApiKey.OFFSET_COMMIT) or now > joined[-1].at + _COMMIT_S:
                return
        traffic.wait(deadline)


def _used(probe: ClientProbe) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for seen in probe.traffic.all():
        low, high = found.get(seen.api, (seen.version, seen.version))
        found[seen.api] = (min(low, seen.version), max(high, seen.version))
    return found
