"""Knows the program of a run: its command, the APIs that it uses, and the records that it writes.

``kwire.conformance.client.opening`` learns both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.conformance.client.program import Command
from kwire.conformance.outcome import Outcome, Report
from kwire.conformance.rule import CLIENT, Rule
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.conformance.runner import RunningProbe


@dataclass
class ClientSession:
    """The state that the checks of a run share. ``timeout_s`` is the time of one check.

    ``expects_records``: the program prints the value of each record to standard output, in any form
    and once. ``used`` maps APIs to the (lowest, highest) version that the program sent, ``written``
    has the values that it wrote.
    """

    command: Command
    timeout_s: float
    make_probe: Callable[[ClientSession], RunningProbe]
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

    def probe(self, rule: Rule) -> RunningProbe:
        """Return the tools of one check, which are the same for every rule."""
        return self.make_probe(self)

    def clean_up(self) -> list[str]:
        """Return nothing: every check ends its program and its cluster."""
        return []
