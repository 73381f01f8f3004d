"""Loses disks of simulated quorums at random, judges those that are left, and compares the verdict
with what the simulation knows to be committed. Seeded bugs measure what that finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from unittest import mock

from gateway.rescue import verdict
from gateway.rescue.copies import Copy
from gateway.rescue.read_copy import read_copy
from gateway.rescue.verdict import VOTER, judge
from kwire.metadata_log.file_names import segment_name
from kwire.protocol import CLUSTER_METADATA_PARTITION
from tests.sim.disk_copies import Moment, moments, write_directory

#: How many times disks are lost at each moment.
_LOSSES: Final = 4
#: The share of copies with a flipped byte.
_DAMAGED: Final = 0.2
#: The bytes of a batch that its CRC covers begin here.
_COVERED: Final = 21


class Lost(NamedTuple):
    """The copies of the disks that are left at a moment."""

    moment: Moment
    copies: Sequence[Copy]


class Told(NamedTuple):
    """Whether the verdict excludes a loss; the offset below which it calls all records committed;
    and the first committed offset that is missing from the best copy, None if all are there.
    """

    is_excluded: bool
    certain: int
    missing_from: int | None

    @property
    def is_wrong(self) -> bool:
        """Whether a committed record is missing where the verdict says that none is."""
        if self.missing_from is None:
            return False
        return self.is_excluded or self.missing_from < self.certain


def losses(seed: int, root: Path) -> list[Lost]:
    """Run the schedule of a seed, and lose disks at its moments; directories are made in
    ``root``.
    """
    random, found = Random(seed), []
    for number, moment in enumerate(moments(seed)):
        copies = {
            id: _copy(moment, id, root / f"{seed}-{number}" / str(id), random)
            for id in moment.disks
        }
        for _ in range(_LOSSES):
            share = random.random()
            left = [copy for copy in copies.values() if random.random() < share]
            found.append(Lost(moment, left))
    return found


def _copy(moment: Moment, id: int, directory: Path, random: Random) -> Copy:
    """The copy of a node's disk, perhaps damaged; its end is that of the disk otherwise."""
    write_directory(moment, id, directory)
    log = moment.disks[id].log
    is_damaged = bool(log.batches) and random.random() < _DAMAGED
    if is_damaged:
        path = directory / CLUSTER_METADATA_PARTITION / segment_name(log.start_offset)
        data, at = bytearray(path.read_bytes()), random.randrange(len(log.batches))
        before = sum(len(batch.data) for batch in log.batches[:at])
        data[before + random.randrange(_COVERED, len(log.batches[at].data))] ^= 1
        path.write_bytes(data)
    copy = read_copy(directory)
    assert copy.is_whole != is_damaged, copy.damage
    assert is_damaged or copy.end.end_offset == log.end_offset, copy
    return copy


def judged(lost: Lost) -> Told | None:
    """The verdict of ``inspect`` about the copies that are left; None where there is nothing."""
    found = judge(lost.copies)
    if found.best is None or found.loss is None:
        return None
    id, end = found.best.identity.node_id, found.best.end.end_offset
    assert id is not None, "each directory has its meta.properties"
    missing = lost.moment.missing_from(id, end)
    return Told(found.loss.is_excluded, found.loss.certain_offset, missing)


# --- seeded bugs in the choice of the copy
# ---------------------------------------------------------------------------


def _ranked(rank: Callable[[Copy], Any]) -> AbstractContextManager[Any]:
    """Copies in another order, which is believed to be the right one."""
    return mock.patch.multiple(verdict, _rank=rank, is_ahead=lambda one, other: False)


def _length_before_epoch() -> AbstractContextManager[Any]:
    return _ranked(lambda copy: (copy.end.end_offset, copy.end.epoch))


def _quorum_state_for_the_order() -> AbstractContextManager[Any]:
    def rank(copy: Copy) -> tuple[int, int]:
        return (copy.election.epoch if copy.election else -1, copy.end.end_offset)

    return _ranked(rank)


def _any_copy_of_a_majority() -> AbstractContextManager[Any]:
    return _ranked(lambda copy: copy.where)


def _half_of_the_voters() -> AbstractContextManager[Any]:
    return mock.patch.object(verdict, "_needed", lambda voters: (voters + 1) // 2)


def _one_voter() -> AbstractContextManager[Any]:
    return mock.patch.object(verdict, "_needed", lambda voters: 1)


def _observers_count() -> AbstractContextManager[Any]:
    return mock.patch.object(verdict, "role_of", lambda *_: VOTER)


def _damaged_copies_count() -> AbstractContextManager[Any]:
    return mock.patch.object(Copy, "is_whole", True)


def _all_of_the_best_is_certain() -> AbstractContextManager[Any]:
    return mock.patch.object(verdict, "_certain", lambda best, copies: best.end.end_offset)


#: Name -> the bug. Each is a plausible mistake in ``gateway.rescue.verdict``.
BUGS: Final = {
    make.__name__.strip("_"): make
    for make in (
        _length_before_epoch,
        _quorum_state_for_the_order,
        _any_copy_of_a_majority,
        _half_of_the_voters,
        _one_voter,
        _observers_count,
        _damaged_copies_count,
        _all_of_the_best_is_certain,
    )
}


def finds(bug: str, lost: Iterable[Lost]) -> bool:
    """Whether a verdict with the bug is wrong about one of these losses."""
    with BUGS[bug]():
        return any(told is not None and told.is_wrong for told in map(judged, lost))
