"""Answers the questions of ``kwire.spark.questions`` from the records of the views of one log,
without Spark and without tables.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.ports.view_topics import CHANGES
from kwire.records import Record
from tests.gateway.views.view_reading import Table, opened, take, view_records

#: The kinds of entities that people and tools change.
BY_HAND: Final = frozenset(["topic", "config", "acl", "user", "quota", "feature", "token"])
#: Columns of answers in Spark, as the methods of ``LogTruth`` have them.
UNDER_REPLICATED: Final = (
    *("topic", "partition", "unix_millis(since)", "unix_millis(until)", "fewestInSync"),
)
FLAPPING: Final = ("id", "fencedTimes", "CAST(round(1000 * fencedSeconds) AS INT)")


class Version(NamedTuple):
    """A value of an entity, and when it was valid, ms; the end is None for the last one."""

    value: Any
    since: int
    until: int | None


@functools.cache
def _records(directory: Path, view: str) -> Sequence[Record]:
    """The records of a view, for which the whole log is folded."""
    return tuple(view_records(opened(directory), view))


class LogTruth:
    """The views of the log in a directory ``__cluster_metadata-0``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def records(self, view: str) -> Sequence[Record]:
        """Return every record of a view."""
        return _records(self.directory, view)

    def last_ms(self) -> int:
        """Return the time of the last change."""
        return max(record.timestamp for record in self.records(CHANGES))

    def state(self, view: str) -> list[Any]:
        """Return the present entities of a view."""
        table: Table = {}
        for record in self.records(view):
            take(table, record)
        return [json.loads(value) for value in table.values()]

    def versions(self, view: str, key: Callable[[Any], Any]) -> dict[Any, list[Version]]:
        """Return the versions of each entity in their order; those of a deleted one have an end."""
        found: dict[Any, list[Version]] = defaultdict(list)
        for record in self.records(view):
            of_key = found[key(json.loads(record.key or b""))]
            if of_key and of_key[-1].until is None:
                of_key[-1] = of_key[-1]._replace(until=record.timestamp)
            if record.value is not None:
                of_key.append(Version(json.loads(record.value), record.timestamp, None))
        return found

    def under_replicated(self) -> list[tuple[Any, ...]]:
        """Return topic, partition, since, until (ms) and fewest in sync of each span."""
        end, found = self.last_ms(), []
        for key, of_one in self.versions("partitions", lambda key: (*key.values(),)).items():
            for run in spans(of_one, lacks):
                since, until = run[0].since, run[-1].until
                if (end if until is None else until) > since:
                    fewest = min(len(one.value["isr"]) for one in run)
                    found.append((*key, since, until, fewest))
        return found

    def flapping(self) -> set[tuple[int, int, int]]:
        """Return each broker that was fenced, how often, and for how many ms."""
        found, end = set(), self.last_ms()
        for broker, of_one in self.versions("brokers", lambda key: key["id"]).items():
            runs = [*spans(of_one, lambda value: bool(value["fenced"]))]
            lasted = sum(
                (end if run[-1].until is None else run[-1].until) - run[0].since for run in runs
            )
            if runs:
                found.add((broker, len(runs), lasted))
        return found

    def drift(self) -> dict[str, dict[str, Any]]:
        """Return each config that the brokers do not share, with its value at each of them."""
        brokers = [str(one["id"]) for one in self.state("brokers")]
        configs = {
            one["resourceName"]: one["configs"]
            for one in self.state("configs")
            if one["resourceType"] == "BROKER" and one["resourceName"]
        }
        names = {name for of_one in configs.values() for name in of_one}
        values = {name: {one: configs.get(one, {}).get(name) for one in brokers} for name in names}
        return {name: by for name, by in values.items() if len({*by.values()}) > 1}

    def by_hand(self) -> list[tuple[int, str, str, bool]]:
        """Return offset, kind and operation of each change by hand, and whether it can be seen:
        those of secrets cannot.
        """
        changes = [json.loads(record.value or b"") for record in self.records(CHANGES)]
        return [
            (one["source"]["offset"], one["kind"], one["op"], one["before"] != one["after"])
            for one in changes
            if one["kind"] in BY_HAND and one["op"] != "r"
        ]

    def recreated(self) -> dict[str, list[str]]:
        """Return the ids of each topic that had several, in their order."""
        ids = {
            name: list(dict.fromkeys(one.value["id"] for one in of_one))
            for name, of_one in self.versions("topics", lambda key: key["name"]).items()
        }
        return {name: of_name for name, of_name in ids.items() if len(of_name) > 1}


def spans(of_one: list[Version], wanted: Callable[[Any], bool]) -> Iterator[list[Version]]:
    """Yield the runs of versions that are as wanted."""
    run: list[Version] = []
    for one in of_one:
        if wanted(one.value):
            run.append(one)
        elif run:
            yield run
            run = []
    if run:
        yield run


def lacks(value: Any) -> bool:
    """True for a partition with fewer replicas in sync than it is to have."""
    return len(value["isr"]) < len({*value["replicas"]} - {*value["addingReplicas"]})
