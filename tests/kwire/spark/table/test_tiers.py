"""Files of a table stay few, and each row is seldom written again."""

from __future__ import annotations

import os
import random

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.table.tiers import FANOUT, due, level_of


@pytest.mark.parametrize("sizes", [(1,), (1, 300), (1, 20, 5000), (7, 80)])
def test_files_are_few_and_rows_are_seldom_written_again(sizes: tuple[int, ...]) -> None:
    rng, files = random.Random(str(sizes)), list[tuple[int, int]]()
    added = written = most = 0
    for _ in range(3000):
        rows = rng.choice(sizes)
        files.append((rows, level_of(rows)))
        added, written = added + rows, written + rows
        while (step := due([level for _, level in files]))[0]:
            count, level = step
            rows = sum(one for one, _ in files[-count:])
            files[-count:] = [(rows, level)]
            written += rows
        levels = [level for _, level in files]
        assert levels == sorted(levels, reverse=True)
        most = max(most, len(files))
    digits = level_of(added) + 1
    assert sum(rows for rows, _ in files) == added
    assert most <= FANOUT * digits and written <= added * (digits + 1)


def test_large_file_is_not_merged_with_a_few_small_ones() -> None:
    assert due([]) == due([4]) == due([4] + [0] * (FANOUT - 1)) == (0, 0)
    assert due([4] + [0] * FANOUT) == (FANOUT, 1)
    assert due([4, 1, 0, 0, 2]) == (4, 2)
