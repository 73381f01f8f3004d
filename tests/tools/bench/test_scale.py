"""The bench of scale at a size that takes seconds: each step works, and has its row."""

from __future__ import annotations

import pytest

from tools.bench import scale_steps
from tools.bench.latency_probe import waits
from tools.bench.scale import Size


def test_each_step_of_a_small_size_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_steps, "LISTING_S", 0.5)
    rows = list(Size(1, 1_200).rows())
    steps = [str(row["what"]).partition(": ")[2] for row in rows]
    assert len(set(steps)) == len(steps) == 19
    # Elections, held loops and ticks of processor time may be none, and memory may shrink.
    assert all(row["kwire"] > 0 for row in rows if row["unit"] in ("partitions/s", "ms (p50)"))
    assert [row["kwire"] for row in rows if row["unit"] == "elections"] == [0]
    assert "ok" in rows[-1] and steps[-1] == "longest wait of another client"


def test_summary_of_waits_has_the_worst_and_the_99th_of_a_hundred() -> None:
    found = waits([0.001] * 98 + [0.002, 0.5])
    assert (found.worst_ms, found.p99_ms, found.count) == (500.0, 2.0, 100)
