"""Defines what a fold takes and gives: records, the state behind them, and the rows of the tables.

The state is an image (``kwire.cluster``) and the time since which each entity has its state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.cluster import Image
from kwire.spark.table.kinds import KINDS, Key
from kwire.spark.table.seen import Fields, Seen, fields_text, shown


class Row(NamedTuple):
    """A record as it was read; ``timestamp`` in ms, ``epoch`` None if the source has none,
    ``error`` the source's error.
    """

    offset: int
    timestamp: int
    value: bytes | None
    epoch: int | None = None
    error: str | None = None


class Moment(NamedTuple):
    """The record with which a state began: its offset, and its time (ms)."""

    offset: int
    timestamp: int


class Change(NamedTuple):
    """One entity that a record changed. ``effective_offset`` is that of the record with which it
    came into force.

    The two offsets differ inside a metadata transaction. ``n`` counts the changes of one record.
    ``was`` and ``now`` are shown as JSON when the rows are written, because most entities are seen
    twice: behind one change, and before the next.
    """

    offset: int
    effective_offset: int
    n: int
    epoch: int | None
    timestamp: int
    type: str
    entity: str
    key: str
    topic: str | None
    op: str
    was: Seen | None
    now: Seen | None

    @property
    def before(self) -> str | None:
        """The entity before the change as JSON, None if it did not exist."""
        return None if self.was is None else fields_text(shown(self.was, self.topic))

    @property
    def after(self) -> str | None:
        """The entity after the change as JSON, None if it does not exist any more."""
        return None if self.now is None else fields_text(shown(self.now, self.topic))


class Closed(NamedTuple):
    """An entity as it was from ``since`` until ``until``, exclusive. ``topic`` is that of a
    partition.
    """

    key: Key
    seen: Seen
    topic: str | None
    since: Moment
    until: Moment

    @property
    def fields(self) -> Fields:
        """Its columns."""
        return shown(self.seen, self.topic)


class Trouble(NamedTuple):
    """A record that could not be read, or does not fit the state before it, and was ignored."""

    offset: int
    timestamp: int
    type: str | None
    error: str


@dataclass
class State:
    """The state of a fold after the records below ``next_offset``, of which the last one has the
    timestamp ``last_time`` (ms).
    """

    image: Image = field(default_factory=Image)
    since: dict[str, dict[Key, Moment]] = field(
        default_factory=lambda: {kind.entity: {} for kind in KINDS}
    )
    held: list[Row] = field(default_factory=list)
    next_offset: int = 0
    last_time: int | None = None


@dataclass
class Folded:
    """The output of some records, besides the state. ``before`` has each entity that changed, by
    kind, and since when it had its state before, None if it did not exist.
    """

    changes: list[Change] = field(default_factory=list)
    closed: dict[str, list[Closed]] = field(
        default_factory=lambda: {kind.entity: [] for kind in KINDS}
    )
    errors: list[Trouble] = field(default_factory=list)
    load: Counter[tuple[int, str]] = field(default_factory=Counter)
    load_bytes: Counter[tuple[int, str]] = field(default_factory=Counter)
    before: dict[str, dict[Key, Moment | None]] = field(
        default_factory=lambda: {kind.entity: {} for kind in KINDS}
    )
