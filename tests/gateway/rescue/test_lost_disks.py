"""Wherever the judgement excludes a loss, no committed record is missing: simulated quorums of the
server's own nodes lose disks amid elections, crashes, snapshots and changes of voters.

``KWIRE_SIM_SEEDS=2000`` runs more schedules than the few of every test run. ``lost_disks`` loses
the disks; ``test_loss_model`` does the same with a plain model of Raft.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.gateway.rescue.lost_disks import BUGS, Told, finds, judged, losses

SEEDS: Final = int(os.environ.get("KWIRE_SIM_SEEDS", "24"))
#: The seed that finds each bug; where the simulator has changed, the bug is searched for again.
FOUND_BY: Final = {
    "length_before_epoch": 7,
    "quorum_state_for_the_order": 7,
    "any_copy_of_a_majority": 17,
    "half_of_the_voters": 1348,
    "one_voter": 17,
    "observers_count": 31,
    "damaged_copies_count": 672,
    "all_of_the_best_is_certain": 29,
}
_SEARCHED: Final = 2000


def _kind(told: Told | None) -> str:
    if told is None:
        return "no record is left"
    missing = "all is there" if told.missing_from is None else "records are missing"
    return f"{'excluded' if told.is_excluded else 'not excluded'}, {missing}"


@pytest.mark.timeout(3600)
def test_nothing_is_lost_wherever_a_loss_is_excluded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(SEEDS):
        for lost in losses(seed, tmp_path):
            told = judged(lost)
            assert told is None or not told.is_wrong, (seed, told)
            kinds[_kind(told)] += 1
    with capsys.disabled():
        print(f"\nlost disks: {SEEDS} schedules, {dict(kinds)}")
    # Each outcome is there, so the schedules tell something.
    assert kinds["excluded, all is there"] > SEEDS // 2
    assert kinds["not excluded, records are missing"] > SEEDS // 20


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", BUGS)
def test_seeded_bug_in_the_choice_of_the_copy_is_found(bug: str, tmp_path: Path) -> None:
    if not finds(bug, losses(FOUND_BY[bug], tmp_path)):
        seeds = range(_SEARCHED)
        assert any(finds(bug, losses(seed, tmp_path)) for seed in seeds), bug
