"""The figures of the bench of one stream over many clusters."""

from __future__ import annotations

import pytest

from tools.bench import spark_delivery
from tools.bench.report import holds


@pytest.mark.parametrize(("median", "expected"), [(2.9, True), (3.0, False)])
def test_bar_is_of_the_median_change(median: float, expected: bool) -> None:
    rows = list(spark_delivery._rows([0.5, median, 60.0], 0.12))
    assert [holds(row) for row in rows] == [expected, None]
    assert rows[0]["notes"] == "below 3 s; at most 60.00 s, 3 changes"
    assert rows[1]["kwire"] == pytest.approx(12)
