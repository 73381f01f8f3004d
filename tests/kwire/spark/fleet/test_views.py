"""The columns of the fleet's tables are those that servers publish."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from gateway.ports import view_topics
from gateway.views.schemas import KEY_FIELDS, spark_schema
from kwire.spark.fleet.views import CLUSTER_ID, ORIGINS, VIEWS, View


def test_every_view_topic_has_tables() -> None:
    assert set(VIEWS) == set(view_topics.VIEWS)
    assert {view.topic for view in VIEWS.values()} == set(map(view_topics.view_topic, VIEWS))


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_columns_are_the_published_ones_with_those_of_the_fleet_around(view: View) -> None:
    names = [name for name, _ in view.columns]
    assert names[0] == CLUSTER_ID[0] and names[-len(ORIGINS) :] == [one[0] for one in ORIGINS]
    assert len({name.lower() for name in names}) == len(names)
    published = spark_schema(view.name)
    between = view.columns[1 : -len(ORIGINS)]
    assert sorted(f"`{name}` {type_}" for name, type_ in between) == sorted(_split(published))
    if view.has_state:
        assert view.identity == (CLUSTER_ID[0], *KEY_FIELDS[view.name])
        assert view.tables == (f"{view.name}_history", f"{view.name}_state")
    else:
        assert view.tables == (f"{view.name}_history",)


def _split(columns: str) -> list[str]:
    """The columns of a DDL text; commas within types do not count."""
    found, depth = [""], 0
    for character in columns:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [one.strip() for one in found]
