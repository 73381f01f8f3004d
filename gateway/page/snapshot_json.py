"""Writes the present as the page shows it: the answer of ``/api/now``, the facts of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.page.timeline_rows import KIND_NAMES, offset_text
from kwire.cluster import view_offsets as offsets
from kwire.cluster.entities.settings import release_of

if TYPE_CHECKING:
    from gateway.page.change_index import ChangeIndex
    from gateway.page.quorum import Leader
    from gateway.views.cursor import ViewCursor


class LogSource(NamedTuple):
    """The server, and where its log comes from. ``node`` is None in a report; ``name`` is what
    people call the cluster.
    """

    version: str
    node: int | None
    cluster: str
    source: str
    name: str | None = None


class LogEnd(NamedTuple):
    """The first offset, the end, and the epoch of the last record."""

    start: int
    end: int
    epoch: int


def now_json(
    about: LogSource,
    time_ms: int,
    readiness: Mapping[str, Any],
    log: LogEnd,
    level: int,
    leaders: Iterable[Leader],
    changes: Mapping[str, Any] | None,
    *,
    available: bool = True,
    latest: int | None = None,
    quorum: Mapping[str, Any] | None = None,
    copy: Mapping[str, Any] | None = None,
    problem: str | None = None,
) -> dict[str, Any]:
    """Return the document. ``level`` is that of metadata.version, 0 for none. ``available``: the
    log leads to a state. ``latest`` is the largest timestamp in it, ms. ``quorum`` is described, or
    ``problem`` says why not. ``copy``: how good the copy of an observer is.
    """
    return {
        **about._asdict(),
        "time": time_ms,
        "latest": latest,
        "readiness": readiness,
        "log": log._asdict(),
        "metadataVersion": (release_of(level) or str(level)) if level else None,
        "available": available,
        "changes": changes,
        "kinds": KIND_NAMES,
        "quorum": quorum,
        "copy": copy,
        "quorumProblem": problem,
        "leaders": [one._asdict() for one in leaders],
    }


def followed(cursor: ViewCursor, changes: ChangeIndex, number: int) -> dict[str, Any]:
    """Return how far the log was folded: ``number`` names the fold, ``offset`` is the end of the
    records whose changes are all there, ``start`` and ``last`` are the first kept and the last
    change.
    """
    return {
        "number": number,
        # Inside a batch of very many changes it is below the cursor's next offset.
        "offset": offsets.log_offset(cursor.position),
        "start": offset_text(changes.start),
        "last": offset_text(changes.last),
        "counts": dict(changes.counts),
    }
