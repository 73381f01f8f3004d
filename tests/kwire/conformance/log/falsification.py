"""Defines falsifications of a log, and the logs that are falsified."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kwire.conformance.outcome import Outcome
from tests.kwire.conformance.log.log_copy import LogCopy

#: The name of a file, and the byte at which a finding has to be; -1 where the whole file is meant.
Where = tuple[str, int]

#: The log that the package ships, and directories of logs that Kafka wrote.
SAMPLE: Final = "sample"
OLD: Final = "p-old/1"
BASIC: Final = "p-one-basic/1"
SEGMENTS: Final = "p-one-segments/7"
QUORUM: Final = "p-quorum/3"
ADDED: Final = "p-quorum/4"
SHORT: Final = "p-quorum-short/103"
UPGRADE: Final = "p-upgrade/1"
ABORT: Final = "p-abort/1"
EVERY_LOG: Final = (SAMPLE, OLD, BASIC, SEGMENTS, SHORT, UPGRADE)
#: Logs of more than one segment, and with snapshots that the log below them leads to.
MANY_SEGMENTS: Final = (SEGMENTS, QUORUM, ADDED, SHORT)


@dataclass(frozen=True)
class Kind:
    """A way to falsify a log, and the rule and outcome that tell it.

    ``places`` lists where it can be done, ``falsify`` does it at one of them and returns where the
    finding has to be. ``times`` copies of each of ``logs`` are falsified.
    """

    name: str
    rule_id: str
    outcome: Outcome
    places: Callable[[LogCopy], Sequence[Any]]
    falsify: Callable[[LogCopy, Any], Where]
    logs: tuple[str, ...]
    times: int

    def chosen(self, log: LogCopy, name: str) -> list[Any]:
        """The places in the log ``name`` that are falsified: any, but the same in every run."""
        return random.Random(f"{self.name} {name}").sample(self.places(log), self.times)


#: All kinds, in the order in which they are defined.
KINDS: list[Kind] = []


def told_by(
    rule: str,
    outcome: Outcome,
    places: Callable[[LogCopy], Sequence[Any]],
    logs: tuple[str, ...],
    times: int = 1,
) -> Callable[[Callable[[LogCopy, Any], Where]], Callable[[LogCopy, Any], Where]]:
    """Make a function that falsifies a kind. Its name is the name of the kind."""

    def add(falsify: Callable[[LogCopy, Any], Where]) -> Callable[[LogCopy, Any], Where]:
        name = falsify.__name__.replace("_", " ")
        KINDS.append(Kind(name, f"log.{rule}", outcome, places, falsify, logs, times))
        return falsify

    return add


def whole_log(log: LogCopy) -> list[None]:
    """The one place of what is done to a whole log."""
    return [None]
