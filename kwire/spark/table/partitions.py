"""Makes the columns of partitions, and their JSON, from many records at once: nearly every row of
the tables is about a partition.

It gives what ``seen.shown`` and ``seen.fields_text`` give one by one. Partitions have few different
lists, so each list is converted once, and Arrow puts the rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kwire.cluster import tree
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
    "leader": "leader",
    "leaderEpoch": "leader_epoch",
    "partitionEpoch": "partition_epoch",
}


class Partitions:
    """The records of some partitions, each with the name of its topic at that time."""

    def __init__(self, records: Sequence[Any], topics: Sequence[str | None]) -> None:
        self._ints = {
            name: pa.array([*map(attrgetter(field), records)], pa.int32())
            for name, field in _INTS.items()
        }
        directories = _lists(records, "directories", lambda ids: [*map(uuid_text, ids)])
        self._few = {
            "topicId": _Few([*map(attrgetter("topic_id"), records)], uuid_text),
            "topic": _Few(topics),
            "directories": directories,
            "leaderRecoveryState": _Few(
                [*map(attrgetter("leader_recovery_state"), records)], tree.recovery_state
            ),
            **{name: _lists(records, field, list) for name, field in _NUMBERS.items()},
        }

    def columns(self) -> dict[str, pa.Array]:
        """The columns of a table, in its order."""
        return {
            name: self._few[name].column(of) if name in self._few else self._ints[name]
            for name, of in _TYPES.items()
        }

    def texts(self) -> pa.Array:
        """Each partition as JSON."""
        pieces: list[Any] = []
        for n, name in enumerate(_TYPES):
            pieces.append(f'{"," if n else "{"}"{name}":')
            few = self._few.get(name)
            pieces.append(self._ints[name].cast(pa.string()) if few is None else few.json())
        return pc.binary_join_element_wise(*pieces, "}", "")


def _lists(records: Sequence[Any], field: str, convert: Callable[[Any], list[Any]]) -> _Few:
    """A column of lists. Most are shared between records, so each object is converted once."""
    lists = [*map(attrgetter(field), records)]
    ids = [*map(id, lists)]
    by_id = dict(zip(ids, lists, strict=True))
    return _Few(ids, lambda one: convert(by_id[one] or ()))


class _Few:
    """A column of few different values."""

    def __init__(self, values: Sequence[Any], convert: Callable[[Any], Any] | None = None) -> None:
        # Calls of C alone: a large log has millions of values.
        known = dict.fromkeys(values)
        places = dict(zip(known, range(len(known)), strict=True))
        self._rows = pa.array([*map(places.__getitem__, values)], pa.int32())
        self._values = [*known] if convert is None else [*map(convert, known)]

    def column(self, of: pa.DataType) -> pa.Array:
        """The values as a column. A word that is not known is a number, as text."""
        values = self._values
        if pa.types.is_string(of):
            values = [one if one is None else str(one) for one in values]
        return pa.array(values, of).take(self._rows)

    def json(self) -> pa.Array:
        """The values as JSON."""
        return pa.array(map(json_text, self._values), pa.string()).take(self._rows)
