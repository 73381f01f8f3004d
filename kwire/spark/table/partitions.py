"""Makes the columns of partitions, and their JSON, from many records at once: nearly every row of
the tables is about a partition.

It gives what ``seen.shown`` and ``seen.fields_text`` give one by one. Partitions have few different
lists, so each list is converted once, and Arrow puts the rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kwire.protocol import LeaderRecoveryState, name_of
from kwire.spark.exact import json_text
from kwire.spark.table.kinds import BY_ENTITY
from kwire.spark.table.seen import uuid_text

_TYPES: Final = BY_ENTITY["partition"].columns
#: Columns that are lists of ids of brokers, by the name of their field.
_NUMBERS: Final = {
    "replicas": "replicas",
    "isr": "isr",
    "removingReplicas": "removing_replicas",
    "addingReplicas": "adding_replicas",
    "elr": "eligible_leader_replicas",
    "lastKnownElr": "last_known_elr",
}
_INTS: Final = {
    "partition": "partition_id",
    "leaderEpoch": "leader_epoch",
    "partitionEpoch": "partition_epoch",
}
_LISTS: Final = {**_NUMBERS, "directories": "directories"}
_RECOVERY: Final = "leaderRecoveryState"


class Partitions:
    """The records of some partitions, each with the name of its topic at that time."""

    def __init__(self, records: Sequence[Any], topics: Sequence[str | None]) -> None:
        self._ints = {
            name: pa.array([*map(attrgetter(field), records)], pa.int32())
            for name, field in _INTS.items()
        }
        self._topics = _Few([*zip(map(attrgetter("topic_id"), records), topics, strict=True)])
        # Records with the same list objects and the same leader are one shape: their columns and
        # their JSON differ in the numbers above only.
        shapes = [
            *zip(
                *(map(id, map(attrgetter(field), records)) for field in _LISTS.values()),
                map(attrgetter("leader"), records),
                map(attrgetter("leader_recovery_state"), records),
                strict=True,
            )
        ]
        by_shape = dict(zip(shapes, records, strict=True))
        self._shapes = _Few(shapes, by_shape)
        self._shape = _Shapes([*by_shape.values()])

    def columns(self) -> dict[str, pa.Array]:
        """The columns of a table, in its order."""
        ids, names = (
            pa.array([side(one) for one in self._topics.values], pa.string())
            for side in (lambda one: uuid_text(one[0]), lambda one: one[1])
        )
        columns = {"topicId": self._topics.spread(ids), "topic": self._topics.spread(names)}
        columns |= {name: self._shapes.spread(one) for name, one in self._shape.columns().items()}
        columns |= self._ints
        return {name: columns[name] for name in _TYPES}

    def texts(self) -> pa.Array:
        """Each partition as JSON."""
        topics = [
            f'{{"topicId":"{uuid_text(topic_id)}","topic":{json_text(name)},"partition":'
            for topic_id, name in self._topics.values
        ]
        partition, leader_epoch, epoch = (one.cast(pa.string()) for one in self._ints.values())
        return pc.binary_join_element_wise(
            self._topics.spread(pa.array(topics, pa.string())),
            partition,
            self._shapes.spread(pa.array(self._shape.texts(), pa.string())),
            leader_epoch,
            ',"partitionEpoch":',
            epoch,
            "}",
            "",
        )


class _Shapes:
    """The columns and the JSON that partitions of one shape share, from a record of each."""

    def __init__(self, records: Sequence[Any]) -> None:
        self._leaders = [one.leader for one in records]
        self._states = _Few(
            [name_of(LeaderRecoveryState, one.leader_recovery_state) for one in records]
        )
        self._lists = {name: _lists(records, field) for name, field in _LISTS.items()}

    def columns(self) -> dict[str, pa.Array]:
        states = pa.array([*map(str, self._states.values)], pa.string())
        return {
            "leader": pa.array(self._leaders, pa.int32()),
            _RECOVERY: self._states.spread(states),
            **{
                name: few.spread(pa.array(few.values, _TYPES[name]))
                for name, few in self._lists.items()
            },
        }

    def texts(self) -> list[str]:
        """The members from ``replicas`` to the name of ``leaderEpoch``."""
        sides = {
            name: few.each([*map(json_text, few.values)])
            for name, few in {**self._lists, _RECOVERY: self._states}.items()
        }
        sides["leader"] = map(str, self._leaders)
        names = [name for name in _TYPES if name in sides]
        form = "".join(f',"{name}":%s' for name in names) + ',"leaderEpoch":'
        return [form % one for one in zip(*(sides[name] for name in names), strict=True)]


def _lists(records: Sequence[Any], field: str) -> _Few:
    """A column of lists. Most are shared between records, so each object is converted once."""
    lists = [getattr(one, field) for one in records]
    ids = [*map(id, lists)]
    by_id = dict(zip(ids, lists, strict=True))
    few = _Few(ids, by_id)
    convert: Callable[[Any], Any] = uuid_text if field == "directories" else int
    few.values = [[*map(convert, one or ())] for one in by_id.values()]
    return few


class _Few:
    """A column of few different values."""

    def __init__(self, values: Sequence[Any], known: Mapping[Any, Any] | None = None) -> None:
        """``known`` has each value once, in the order of ``values``."""
        # Calls of C alone: a large log has millions of values.
        known = dict.fromkeys(values) if known is None else known
        places = dict(zip(known, range(len(known)), strict=True))
        self._places = [*map(places.__getitem__, values)]
        self.values: list[Any] = [*known]

    def each(self, converted: Sequence[Any]) -> Iterator[Any]:
        """The column, where ``converted`` has something for each of ``values``."""
        return map(converted.__getitem__, self._places)

    def spread(self, converted: pa.Array) -> pa.Array:
        """The same for Arrow."""
        return converted.take(pa.array(self._places, pa.int32()))
