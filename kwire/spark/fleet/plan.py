"""Decides what a job does with each cluster: goes on, begins, repairs, or stops. Pure: it is given
what the tables remember and what the server says, and opens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal

from kwire.cluster.view_offsets import log_offset

OnGap = Literal["fail", "resync"]


class Condition(StrEnum):
    """How it is with a cluster after a round; the tables of all but the first stay as they were."""

    OK = "OK"
    UNREACHABLE = "UNREACHABLE"  #: no server answers, or it refuses
    GAP = "GAP"  #: the log begins behind what was read
    TRUNCATED = "TRUNCATED"  #: the log ends before what was read, or another record is there
    REPLACED = "REPLACED"  #: another cluster has the name
    DUPLICATE = "DUPLICATE"  #: the cluster has two names in one job
    FAILED = "FAILED"  #: it cannot be read or written
    GONE = "GONE"  #: another cluster has the name, and all of this one is marked deleted


@dataclass(frozen=True)
class Anchor:
    """A record that was read, by which a log is recognized: where it is, and its time."""

    topic: str
    offset: int
    timestamp_ms: int


@dataclass(frozen=True)
class Remembered:
    """The row of a cluster in the table ``clusters``. ``position`` is the next offset of ``views``;
    None until a log was read as a whole.
    """

    cluster_id: str
    name: str
    generation: int = 0
    position: int | None = None
    anchor: Anchor | None = None
    condition: Condition = Condition.OK
    message: str = ""
    views: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Found:
    """The answer of a server: ``begin`` and ``end`` of its views, its first record, which is None
    where none has one, and the record at the anchor's place: None if that place is before
    ``begin``, or has no record.
    """

    cluster_id: str
    begin: int
    end: int
    first: Anchor | None
    at_anchor: Anchor | None = None


@dataclass(frozen=True)
class Read:
    """Read the cluster's views from ``start`` to ``end``; then ``row`` holds, with ``end`` as
    position. ``gone`` is another cluster that had the name.

    With ``begins`` nothing of this log counts as read yet: ``row`` is to be remembered first. With
    ``anew`` the log is read from its beginning, over rows that may be there. ``only_if_same`` is
    for a log that has no record left to recognize it by: its snapshot has to be what the tables
    have.
    """

    row: Remembered
    start: int
    end: int
    begins: bool = False
    anew: bool = False
    only_if_same: bool = False
    gone: Remembered | None = None

    @property
    def repeats(self) -> bool:
        """True where the snapshot of the log repeats what was read before."""
        return self.anew and not self.begins


@dataclass(frozen=True)
class Stop:
    """Do nothing, and say why in ``row``."""

    row: Remembered


@dataclass(frozen=True)
class Outcome:
    """How it is with a cluster after a round, and how many records the round read of it. ``name``
    is that of the job, ``cluster_id`` Kafka's; ``message`` says what to do where ``condition`` is
    not OK.
    """

    name: str
    cluster_id: str
    condition: Condition
    message: str
    records: int = 0


def plan(
    name: str,
    found: Found,
    by_id: Remembered | None,
    by_name: Remembered | None,
    on_gap: OnGap,
    views: frozenset[str],
) -> Read | Stop:
    """Return what to do with ``views`` of the cluster that answers for ``name``. ``by_id`` is the
    row of its id, ``by_name`` that of another cluster that had the name.
    """
    gone = None
    if by_name is not None and by_name.cluster_id != found.cluster_id:
        if on_gap == "fail":
            return Stop(
                _told(
                    by_name,
                    Condition.REPLACED,
                    f"{name} was the cluster {by_name.cluster_id} and is now {found.cluster_id}."
                    " Give the new cluster another name; or run once with on-gap resync, which"
                    " marks all of the old one deleted and keeps the new one",
                )
            )
        gone = by_name
    if by_id is None:
        row = Remembered(found.cluster_id, name, anchor=found.first, views=views)
        return Read(row, found.begin, found.end, begins=True, anew=True, gone=gone)
    if by_id.condition is Condition.GONE:  # it had lost its name to another cluster
        return _next_generation(by_id, name, found, gone, views)
    row = replace(by_id, name=name, condition=Condition.OK, message="", views=views)
    anchor, position = row.anchor, row.position
    known = anchor is not None and anchor == found.at_anchor
    said = ""
    if position is not None and found.end < position:
        if known:  # only records that change nothing are missing behind the last that was read
            row = replace(row, position=found.end, views=views & by_id.views)
            return Read(row, found.end, found.end, gone=gone)
        said = _shorter(name, position, found)
    elif anchor is not None and not known and anchor.offset >= found.begin:
        said = _other(name, row, anchor)
    if said and on_gap == "fail":
        return Stop(_told(by_id, Condition.TRUNCATED, said))
    if said:
        return _next_generation(by_id, name, found, gone, views)
    more = not views <= by_id.views
    if known and position is not None and found.begin <= position and not more:
        return Read(row, position, found.end, gone=gone)
    row = replace(row, anchor=found.first)
    if position is None:  # a first reading that did not come to its end
        return Read(row, found.begin, found.end, begins=True, anew=True, gone=gone)
    if found.begin > position and on_gap == "fail":
        return Stop(_told(by_id, Condition.GAP, _gap(name, position, found)))
    same = not known and not more and on_gap == "fail"
    return Read(row, found.begin, found.end, anew=True, only_if_same=same, gone=gone)


def not_the_same(before: Remembered) -> Remembered:
    """Return the row of a cluster whose log begins with a snapshot that the tables do not have."""
    said = (
        f"the log of {before.name} begins with a snapshot that is not the state that was read: the"
        f" cluster {before.cluster_id} was wiped, or restored from an older copy; if that is right,"
        f" {_RESYNC}"
    )
    return _told(before, Condition.TRUNCATED, said)


def _next_generation(
    row: Remembered, name: str, found: Found, gone: Remembered | None, views: frozenset[str]
) -> Read:
    """The log began anew, so its offsets say nothing of those in the tables."""
    generation = row.generation + 1
    row = Remembered(row.cluster_id, name, generation, anchor=found.first, views=views)
    return Read(row, found.begin, found.end, begins=True, anew=True, gone=gone)


def _told(row: Remembered, condition: Condition, message: str) -> Remembered:
    return replace(row, condition=condition, message=message)


_RESYNC: Final = (
    "run once with on-gap resync, which reads the log anew, marks what is gone deleted, and leaves"
    " the history as it is"
)


def _gap(name: str, position: int, found: Found) -> str:
    return (
        f"the log of {name} begins with a snapshot behind offset"
        f" {max(log_offset(found.begin), 0)}, and it was read up to {log_offset(position)} only:"
        f" what was changed and deleted in between is not known; {_RESYNC}"
    )


def _shorter(name: str, position: int, found: Found) -> str:
    return (
        f"the log of {name} ends at offset {log_offset(found.end)}, and it was read up to"
        f" {log_offset(position)}: this server is behind, or the log was truncated, wiped or"
        f" restored from an older copy; if it was, {_RESYNC}"
    )


def _other(name: str, row: Remembered, anchor: Anchor) -> str:
    return (
        f"the log of {name} does not have the record that was read at offset"
        f" {log_offset(anchor.offset)}: the cluster {row.cluster_id} was wiped, or restored"
        f" from an older copy; if that is right, {_RESYNC}"
    )
