"""The result of a schedule."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """Events stepped, hash of the trace, proposals or batches acknowledged, epochs with a leader,
    faults.

    ``recovery_s``: from healing to a commit, -1 for a schedule without healing.
    """

    events: int
    hash: str
    acked: int
    leaders: int
    recovery_s: float
    faults: int
