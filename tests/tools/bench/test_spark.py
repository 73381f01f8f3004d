"""The figures of the Spark bench: ratios of turns that followed each other, and the CPU of a
process tree.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tools.bench import spark
from tools.bench.report import holds
from tools.bench.spark import ALONE, BULK, KAFKA, RECORDS, SOURCE, STOCK, Passes


def test_bars_are_of_turns_and_not_of_the_whole() -> None:
    passes = {
        STOCK: Passes([1.0, 4.0, 1.0], [1.0, 1.0, 1.0]),
        KAFKA: Passes([1.1, 4.4, 1.1], [1.0, 1.0, 1.0]),
        BULK: Passes([2.0, 2.0, 2.0], [3.0, 2.0, 4.0]),
        SOURCE: Passes([2.5, 2.5, 2.5], [2.0, 2.0, 2.0]),
        ALONE: Passes([20.0], [20.0]),
    }
    rows = list(spark._rows(passes))
    assert [(round(row["ratio"], 2), holds(row)) for row in rows[:3]] == [
        (1.1, True),
        (10.0, True),
        (0.8, False),
    ]
    assert rows[0]["kwire"] == RECORDS
    assert {row["what"]: row["kwire"] for row in rows[3:]}[
        f"{BULK}, CPU for 1,000,000 records"
    ] == 3.0


def test_ticks_of_a_child_that_ended_are_its_parents() -> None:
    parent, before = spark._stats()[os.getpid()]
    assert parent == os.getppid()
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)
    assert spark._stats()[os.getpid()][1] > before
