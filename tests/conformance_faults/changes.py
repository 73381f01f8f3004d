"""Builds changes of responses for faults: an error becomes another, a field gets a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kwire.protocol import ApiKey, ErrorCode
from tests.conformance_faults.proxy import Changed, Fault

Change = Callable[[Any, Any], None]
#: (name of the fault, id of the rule that finds it, fault)
Row = tuple[str, str, Fault]


def partitions(answer: Any) -> list[Any]:
    """The partitions of a response."""
    topics = answer.responses if hasattr(answer, "responses") else answer.topics
    return [partition for topic in topics for partition in topic.partitions]


def error_becomes(old: ErrorCode, new: ErrorCode = ErrorCode.NONE) -> Change:
    """Replace an error of a response, and of its partitions."""

    def change(answer: Any, request: Any) -> None:
        for one in (answer, *partitions(answer)):
            if getattr(one, "error_code", None) == old:
                one.error_code = new

    return change


def each(**values: Any) -> Change:
    """Set fields of every partition, or of the leader in it."""

    def change(answer: Any, request: Any) -> None:
        for one in partitions(answer):
            for name, value in values.items():
                at = one if hasattr(one, name) else one.current_leader
                setattr(at, name, value(getattr(at, name)) if callable(value) else value)

    return change


def when(condition: Callable[[Any], Any], change: Change) -> Change:
    """Change only the answers to requests of this kind."""

    def changed(answer: Any, request: Any) -> None:
        if condition(request):
            change(answer, request)

    return changed


def names_a_cluster(request: Any) -> bool:
    """Not the Fetch by which the rules find the leader, which names no cluster, and not the
    ApiVersions of a client that expects no broker.
    """
    return request.cluster_id is not None


def faults_of(key: ApiKey, *rows: tuple[str, str, Change]) -> Iterator[Row]:
    """Faults in the responses of one API."""
    for name, rule, change in rows:
        yield name, rule, Changed(key, change)
