"""The rows of the bench of merges; its measurement runs with Spark (``python -m tools.bench
fleet-merges``).
"""

from __future__ import annotations

import pytest

from kwire.spark.fleet.views import VIEWS
from tools.bench import fleet_merges


def test_rows_compare_marks_with_files_that_are_rewritten() -> None:
    [row] = fleet_merges.rows("delta", {"101000": [2.0, 0.125, 5.0, 4.0]})
    assert row["what"] == "delta: MERGE of 100 rows into a state of 101,000"
    assert (row["kwire"], row["peer_value"], row["ratio"]) == (2.0, 5.0, 2.5)
    assert "0.12 MiB are written, and 4.00 where" in row["notes"]


def test_partitions_of_the_bench_have_columns_of_the_view() -> None:
    pytest.importorskip("pyspark", reason="the spark extra is not installed")
    view = VIEWS["partitions"]
    assert fleet_merges._VALUES.keys() <= {name for name, _ in view.columns}
    text = fleet_merges._rows(view, "SELECT 1 id, 2 at")
    assert all(f" AS {name}" in text for name, _ in view.columns)
