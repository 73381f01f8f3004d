"""Keeps the tables of topics, brokers and troubled partitions of the page, change by change.

A table is asked for in pages: sorted and filtered here, so that a browser gets a hundred rows of a
cluster of a million partitions. Values that only the shown rows need are read from the image.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.page.timeline_rows import broker_state, is_leaderless, is_under_replicated
from gateway.page.topic_usage import TopicUsage, usage_of
from gateway.views.fold import Change
from kwire.cluster.entities.settings import shown_configs
from kwire.cluster.image import TOPIC_RESOURCE

if TYPE_CHECKING:
    from kwire.cluster import Image
    from kwire.cluster.kind import State
    from kwire.messages.partition_record import PartitionRecord

#: Rows of one response.
ROWS_MAX: Final = 100
#: Values of ``only`` in a list of partitions.
OFFLINE, UNDER_REPLICATED = "offline", "under"
#: A partition: topic and number.
_Place = tuple[str, int]


class BadTable(ValueError):
    """A table, column or topic that there is not; the text says which."""


class TableQuery(NamedTuple):
    """The part of a table that is asked for: rows whose names contain ``text``, by a column."""

    sort: str = "name"
    descending: bool = False
    start: int = 0
    text: str = ""


class _Topic:
    """Counts of one topic's partitions."""

    __slots__ = ("factors", "leaders", "offline", "partitions", "replicas", "under")

    def __init__(self) -> None:
        self.partitions = self.offline = self.under = 0
        self.factors = Counter[int]()  # partitions by replication factor
        self.leaders = Counter[int]()  # by broker
        self.replicas = Counter[int]()

    @property
    def factor(self) -> int:
        """The smallest replication factor of its partitions."""
        return min(self.factors, default=0)


class Tables:
    """The tables of one fold, which tells every change by :meth:`add`."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._replicas = Counter[int]()  # by broker
        self._leaders = Counter[int]()
        self._out = Counter[int]()  # replicas that are out of their ISR
        self._lists: dict[str, dict[_Place, None]] = {OFFLINE: {}, UNDER_REPLICATED: {}}

    def add(self, change: Change) -> None:
        """Count a change of a topic or partition."""
        kind, before, after = change.kind.kind, change.before, change.after
        if kind == "topic" and before is not None and after is None:
            self._topics.pop(before[0], None)
        elif kind == "topic" and before is None and after is not None:
            self._topics[after[0]] = _Topic()
        elif kind == "partition":
            for state, number in ((before, -1), (after, 1)):
                if state is not None:
                    self._count(state, number)

    def _count(self, state: State, number: int) -> None:
        name, partition = state
        # A damaged log may give two topics one name: then the counts are those of both.
        topic = self._topics.setdefault(name, _Topic())
        is_offline, is_under = is_leaderless(state), is_under_replicated(state)
        topic.partitions += number
        topic.offline += number * is_offline
        topic.under += number * is_under
        _change(topic.factors, len(partition.replicas), number)
        for broker_id in partition.replicas:
            _change(topic.replicas, broker_id, number)
            _change(self._replicas, broker_id, number)
            if broker_id not in partition.isr:
                _change(self._out, broker_id, number)
        if not is_offline:
            _change(topic.leaders, partition.leader, number)
            _change(self._leaders, partition.leader, number)
        place = name, partition.partition_id
        for listed, is_so in ((OFFLINE, is_offline), (UNDER_REPLICATED, is_under)):
            if number < 0:
                self._lists[listed].pop(place, None)
            elif is_so:
                self._lists[listed][place] = None

    def topics(
        self,
        image: Image,
        wanted: TableQuery,
        usage: Mapping[str, TopicUsage] | None = None,
    ) -> dict[str, Any]:
        """Return a part of the table of topics, with their ``usage`` of this broker; None: this
        node is no broker. Raises BadTable.
        """
        columns: dict[str, Callable[[tuple[str, _Topic]], Any]] = {
            "name": lambda one: one[0],
            "partitions": lambda one: (one[1].partitions, one[0]),
            "factor": lambda one: (one[1].factor, one[0]),
            "leaders": lambda one: (len(one[1].leaders), one[0]),
            "offline": lambda one: (one[1].offline, one[0]),
            "under": lambda one: (one[1].under, one[0]),
            "configs": lambda one: (len(_configs(image, one[0])), one[0]),
        }
        if usage is not None:
            for place, name in enumerate(TopicUsage._fields):
                columns[name] = lambda one, place=place: (  # type: ignore[misc]
                    usage_of(usage, one[0])[place],
                    one[0],
                )
        text = wanted.text.casefold()
        total = sum(text in name.casefold() for name in self._topics) if text else len(self._topics)
        found = (one for one in self._topics.items() if not text or text in one[0].casefold())
        rows = [_topic_row(image, *one) for one in _part(found, wanted, columns)]
        if usage is not None:
            for row in rows:
                row |= usage_of(usage, row["name"])._asdict()
        return {
            "total": total,
            "start": wanted.start,
            "rows": rows,
            "hasUsage": usage is not None,
        }

    def brokers(self, image: Image, wanted: TableQuery) -> dict[str, Any]:
        """Return a part of the table of brokers: those that are registered or have replicas.
        Raises BadTable.
        """
        rows = [self._broker_row(image, id) for id in self._replicas.keys() | image.brokers.keys()]
        text = wanted.text.casefold()
        found = [one for one in rows if not text or text in f"{one['id']} {one['rack']}".casefold()]
        columns: dict[str, Callable[[dict[str, Any]], Any]] = {
            "name": lambda one: one["id"],
            "rack": lambda one: (one["rack"] or "", one["id"]),
        }
        for name in ("state", "partitions", "leaders", "out"):
            columns[name] = lambda one, name=name: (one[name], one["id"])  # type: ignore[misc]
        part = _part(found, wanted, columns)
        return {"total": len(found), "start": wanted.start, "rows": part}

    def partitions(
        self, image: Image, *, topic: str = "", only: str = "", start: int = 0
    ) -> dict[str, Any]:
        """Return partitions of a topic, those of a list (``only``), or those on the broker that
        ``only`` is the id of. Raises BadTable.
        """
        if topic:
            if topic not in image.topic_ids:
                raise BadTable(f"there is no topic {topic}")
            numbers = _partitions(image, topic)
            places: Iterable[_Place] = ((topic, number) for number in sorted(numbers))
            total = len(numbers)
        elif only in self._lists:
            places, total = self._lists[only], len(self._lists[only])
            places = heapq.nsmallest(start + ROWS_MAX, places)
        elif only.isascii() and only.isdigit() and len(only) < 11:
            places, total = self._on(image, int(only)), self._replicas[int(only)]
        else:
            raise BadTable("a topic, or only=offline, under or a broker's id is needed")
        part = islice(places, start, start + ROWS_MAX)
        rows = [one for place in part if (one := _partition_row(image, *place)) is not None]
        configs = _shown_configs(image, topic) if topic else {}
        return {"total": total, "start": start, "rows": rows, "configs": configs}

    def _on(self, image: Image, broker_id: int) -> Iterator[_Place]:
        """Yield the partitions on a broker."""
        for name, topic in self._topics.items():
            if broker_id in topic.replicas:
                for number, partition in _partitions(image, name).items():
                    if broker_id in partition.replicas:
                        yield name, number

    def _broker_row(self, image: Image, broker_id: int) -> dict[str, Any]:
        broker = image.brokers.get(broker_id)
        endpoints = [] if broker is None else broker.end_points
        return {
            "id": broker_id,
            "rack": None if broker is None else broker.rack,
            "state": broker_state(broker),
            "address": ", ".join(f"{one.host}:{one.port}" for one in endpoints[:3]),
            "partitions": self._replicas[broker_id],
            "leaders": self._leaders[broker_id],
            "out": self._out[broker_id],
        }


def _part(
    found: Iterable[Any], wanted: TableQuery, columns: Mapping[str, Callable[[Any], Any]]
) -> list[Any]:
    """Return the wanted rows. Only those up to their end are sorted: a sort of all rows of a large
    cluster would hold the interpreter's lock.
    """
    if wanted.sort not in columns:
        raise BadTable(f"there is no column {wanted.sort}: {', '.join(columns)}")
    choose = heapq.nlargest if wanted.descending else heapq.nsmallest
    end = wanted.start + ROWS_MAX
    return list(choose(end, found, key=columns[wanted.sort]))[wanted.start :]


def _topic_row(image: Image, name: str, topic: _Topic) -> dict[str, Any]:
    return {
        "name": name,
        "partitions": topic.partitions,
        "factor": sorted(topic.factors),
        "leaders": len(topic.leaders),
        "offline": topic.offline,
        "under": topic.under,
        "configs": _shown_configs(image, name),
    }


def _partition_row(image: Image, name: str, number: int) -> dict[str, Any] | None:
    partition = _partitions(image, name).get(number)
    return (
        None
        if partition is None
        else {
            "topic": name,
            "partition": number,
            "leader": partition.leader,
            "replicas": partition.replicas,
            "isr": partition.isr,
            "elr": partition.eligible_leader_replicas or [],
        }
    )


def _partitions(image: Image, topic: str) -> Mapping[int, PartitionRecord]:
    topic_id = image.topic_ids.get(topic)
    return {} if topic_id is None else image.partitions.get(topic_id, {})


def _shown_configs(image: Image, topic: str) -> dict[str, Any]:
    return shown_configs(TOPIC_RESOURCE, topic, _configs(image, topic))


def _configs(image: Image, topic: str) -> Mapping[str, str]:
    return image.configs.get((TOPIC_RESOURCE, topic), {})


def _change(counts: Counter[int], key: int, number: int) -> None:
    """Change a count; one of nothing takes no memory."""
    counts[key] += number
    if not counts[key]:
        del counts[key]
