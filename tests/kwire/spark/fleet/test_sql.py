"""The texts of the statements; what they do is tested with Spark (tests/interop)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.fleet import sql
from kwire.spark.fleet.views import VIEWS, View


def test_names_and_texts_cannot_end_their_quotes() -> None:
    assert sql.quoted("a`b") == "`a``b`"
    assert sql.literal("it's \\ here") == "'it\\'s \\\\ here'"


def test_table_has_comments_partitions_and_properties() -> None:
    text = sql.create("t", VIEWS["topics"].columns, "delta", "Topics", properties={"a": "b"})
    assert text.startswith("CREATE TABLE IF NOT EXISTS t (\n  `cluster_id` STRING COMMENT '")
    assert "\n) USING delta\nPARTITIONED BY (`cluster_id`)\nCOMMENT 'Topics'" in text
    assert text.endswith("TBLPROPERTIES ('a' = 'b')")
    for line in text.splitlines()[1:6]:
        assert line.startswith("  `")


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_statements_name_the_partitions_and_the_identity(view: View) -> None:
    history = sql.merge_history(view, "h", "rows", {"B": 7, "A": -1})
    assert (
        "ON ((t.cluster_id = 'A' AND t.offset >= -1) OR (t.cluster_id = 'B' AND t.offset >= 7))"
        in history
    )
    for name in (*view.identity, "generation", "offset"):
        assert f"t.`{name}` = s.`{name}`" in history
    assert "WHEN MATCHED" not in history
    state = sql.merge_state(view, "s", "rows", ["B", "A"])
    assert "t.cluster_id IN ('A', 'B')" in state and "s.offset > t.offset" in state
    for name, _ in view.columns:
        assert f"`{name}`" in history and f"t.`{name}` = s.`{name}`" in state


def test_maps_are_compared_as_sorted_entries() -> None:
    text = sql.news(VIEWS["topics"], "read", "state", "begun")
    assert "array_sort(map_entries(t.`configs`)) <=> array_sort(map_entries(s.`configs`))" in text
    assert "t.`partitions` <=> s.`partitions`" in text


def test_rows_of_the_driver_are_a_query_of_typed_values() -> None:
    columns = (("name", "STRING"), ("at", "TIMESTAMP"), ("offset", "BIGINT"))
    noon = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=12, microseconds=3)
    text = sql.values(columns, [("it's", noon, 7), (None, None, None)])
    assert text == (
        "SELECT * FROM VALUES ('it\\'s', timestamp_micros(43200000003), CAST(7 AS BIGINT)),"
        " (CAST(NULL AS STRING), CAST(NULL AS TIMESTAMP), CAST(NULL AS BIGINT))"
        " AS of_driver(`name`, `at`, `offset`)"
    )


def test_no_rows_of_the_driver_are_a_query_with_its_columns() -> None:
    text = sql.values((("name", "STRING"), ("configs", "MAP<STRING, STRING>")), [])
    assert text.endswith("AS of_driver(`name`, `configs`) WHERE false")
    assert "CAST(NULL AS MAP<STRING, STRING>)" in text
