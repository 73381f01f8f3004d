"""Holds the state of one run against a server: connections, versions, topics and groups to delete.

The checks of a run share one session, in several threads. ``kwire.conformance.opening`` makes it.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kwire.conformance.connection import Opener
from kwire.conformance.outcome import Outcome, ProbeTimeout, Report
from kwire.conformance.rule import Changes, Need, Role, Rule
from kwire.messages import BY_KEY
from kwire.protocol import ApiKey
from kwire.registry import request_type

if TYPE_CHECKING:
    from kwire.conformance.runner import RunningProbe

CLIENT_ID: Final = "kwire-conform"
#: Names of everything that a run creates begin with this.
PREFIX: Final = "kwire-conform-"


class CannotConnect(Exception):
    """The server cannot be tested at all: it does not answer, or is no Kafka server."""


@dataclass(frozen=True)
class Target:
    """A listener of a server. ``open`` gives a connection on which requests can be sent at once;
    ``open_unauthenticated`` one before SASL, the same on listeners without SASL.
    """

    name: str
    open: Opener
    open_unauthenticated: Opener
    has_tls: bool = False
    has_sasl: bool = False


def codec_versions(api: ApiKey) -> range:
    """The versions of ``api`` that the codec has; none of APIs that were removed."""
    return request_type(api).VERSIONS if ("request", int(api)) in BY_KEY else range(0)


@dataclass
class Session:
    """The state that all probes of a run share. ``timeout_s`` is the time of one probe."""

    target: Target
    offered: Mapping[int, tuple[int, int]]
    timeout_s: float
    make_probe: Callable[[Session, Rule], RunningProbe]
    prefix: str = field(default_factory=lambda: f"{PREFIX}{secrets.token_hex(4)}-")
    _cleanups: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    _values: dict[str, object] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    #: One response above LARGE_BYTES at a time is received and decoded.
    large: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(1))
    #: Removing what the run made ends by this time; None before it begins.
    clean_up_deadline: float | None = None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def roles(self) -> frozenset[Role]:
        """The roles of the server, judged by what it offers."""
        found = set()
        if ApiKey.METADATA in self.offered:
            found.add(Role.BROKER)
        if ApiKey.VOTE in self.offered or ApiKey.BROKER_REGISTRATION in self.offered:
            found.add(Role.CONTROLLER)
        return frozenset(found)

    def versions(self, api: ApiKey) -> range:
        """The versions of ``api`` that both the server and the codec have."""
        low, high = self.offered.get(api, (0, -1))
        known = codec_versions(api)
        return range(max(low, known.start), min(high, known.stop - 1) + 1)

    def new_name(self) -> str:
        """Return a name of the run's prefix that was not used before."""
        return f"{self.prefix}{next(self._numbers)}"

    def shared(self, name: str, make: Callable[[], object], deadline: float) -> object:
        """Return what ``make`` returned in the first call with this name. Others wait for it, no
        longer than until ``deadline``; then they raise ProbeTimeout.

        An exception of ``make`` is not kept: the next caller tries again.
        """
        if not self._lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise ProbeTimeout("what several rules share was not made in time")
        try:
            if name not in self._values:
                self._values[name] = make()
            return self._values[name]
        finally:
            self._lock.release()

    def on_end(self, what: str, undo: Callable[[], None]) -> None:
        """Call ``undo`` at the end of the run, also after Ctrl-C. ``what`` names the thing."""
        self._cleanups.append((what, undo))

    def new_report(self) -> Report:
        """Return a report without results."""
        return Report(self.target.name, self.roles, dict(self.offered), [])

    def probe(self, rule: Rule) -> RunningProbe:
        """Return the tools of one check."""
        return self.make_probe(self, rule)

    def why_not(self, rule: Rule, destructive: bool) -> tuple[Outcome, str] | None:
        """Return outcome and sentence for a rule that is not run, None for one that is."""
        if not rule.roles & self.roles:
            wanted = " or ".join(sorted(role.value for role in rule.roles))
            return Outcome.NOT_APPLICABLE, f"the rule is for a {wanted}"
        for api in rule.apis:
            if api not in self.offered:
                return Outcome.NOT_OFFERED, f"{api.title} is not offered"
        if rule.api is not None and rule.version is not None:
            low, high = self.offered[rule.api]
            if not low <= rule.version <= high:
                return Outcome.NOT_OFFERED, f"{rule.api.title} is offered from v{low} to v{high}"
        unmet = [need for need in rule.needs if not self._meets(need)]
        if unmet:
            return Outcome.NOT_APPLICABLE, f"the rule needs {unmet[0].value}"
        if rule.changes is Changes.CLUSTER and not destructive:
            return Outcome.NOT_TRIED, "the rule changes the cluster: give --destructive"
        return None

    def _meets(self, need: Need) -> bool:
        return {
            Need.PLAIN_SOCKET: not self.target.has_tls,
            Need.SASL: self.target.has_sasl,
            Need.NO_SASL: not self.target.has_sasl,
        }[need]

    def clean_up(self) -> list[str]:
        """Undo what the run made, newest first. Returns a sentence for each thing that is left.

        It takes no longer than twice the time of a probe.
        """
        self.clean_up_deadline = time.monotonic() + 2 * self.timeout_s
        left = []
        while self._cleanups:
            what, undo = self._cleanups.pop()
            try:
                undo()
            except (
                Exception
            ) as error:  # what an undo makes of a strange answer must not end the run
                left.append(f"{what} could not be removed: {error}")
        return left
