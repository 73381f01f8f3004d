"""Tables of the page: rows are those of the state, in pages and in any order."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.page import tables as tables_module
from gateway.page.change_index import ChangeIndex
from gateway.page.tables import BadTable, TableQuery, Tables
from kwire.cluster import Image
from tests.gateway.page.hostile_log import NAMES, write_hostile_log
from tests.gateway.page.sample_log import ENCODER, index, state
from tests.gateway.views.view_reading import opened, pieces

TOPIC_COLUMNS = ["name", "partitions", "factor", "leaders", "offline", "under", "configs"]
BROKER_COLUMNS = ["name", "rack", "state", "partitions", "leaders", "out"]


@pytest.fixture(scope="module")
def made() -> tuple[Tables, Image]:
    return index().tables, state()


def pages(read: Any, **wanted: Any) -> list[dict[str, Any]]:
    """The rows of all pages."""
    rows = list[dict[str, Any]]()
    while True:
        found = read(TableQuery(start=len(rows), **wanted))
        rows += found["rows"]
        if not found["rows"]:
            assert len(rows) == found["total"]
            return rows


def test_topics_are_those_of_the_state(made: tuple[Tables, Image]) -> None:
    tables, image = made
    rows = pages(lambda wanted: tables.topics(image, wanted))
    assert [row["name"] for row in rows] == sorted(image.topic_ids)
    for row in rows:
        partitions = image.partitions[image.topic_ids[row["name"]]].values()
        assert (row["partitions"], row["factor"], row["leaders"], row["offline"], row["under"]) == (
            len(partitions),
            sorted({len(one.replicas) for one in partitions}),
            len({one.leader for one in partitions if one.leader >= 0}),
            sum(one.leader < 0 for one in partitions),
            sum(len(one.isr) < len(one.replicas) for one in partitions),
        )
        assert row["configs"].keys() == image.configs.get((2, row["name"]), {}).keys()


@pytest.mark.parametrize("column", TOPIC_COLUMNS)
@pytest.mark.parametrize("descending", [False, True])
def test_pages_have_every_topic_once_in_any_order(
    made: tuple[Tables, Image], column: str, descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_module, "ROWS_MAX", 5)
    tables, image = made
    rows = pages(lambda wanted: tables.topics(image, wanted), sort=column, descending=descending)
    assert sorted(row["name"] for row in rows) == sorted(image.topic_ids)
    values = [len(row[column]) if column == "configs" else row[column] for row in rows]
    assert values == sorted(values, reverse=descending)


def test_topics_are_found_by_a_part_of_their_name(made: tuple[Tables, Image]) -> None:
    tables, image = made
    name = sorted(image.topic_ids)[3]
    found = tables.topics(image, TableQuery(text=name[2:].upper()))
    assert name in [row["name"] for row in found["rows"]]
    assert found["total"] == sum(name[2:].lower() in one.lower() for one in image.topic_ids)


def test_brokers_have_their_replicas_and_leaders(made: tuple[Tables, Image]) -> None:
    tables, image = made
    everything = [one for some in image.partitions.values() for one in some.values()]
    for column in BROKER_COLUMNS:
        for row in pages(lambda wanted: tables.brokers(image, wanted), sort=column):
            hosted = [one for one in everything if row["id"] in one.replicas]
            assert row["partitions"] == len(hosted)
            assert row["leaders"] == sum(one.leader == row["id"] for one in hosted)
            assert row["out"] == sum(row["id"] not in one.isr for one in hosted)
            assert row["rack"] == image.brokers[row["id"]].rack


def test_lists_of_partitions_are_those_of_the_state(made: tuple[Tables, Image]) -> None:
    tables, image = made

    def places(**asked: Any) -> list[tuple[str, int]]:
        rows = list[dict[str, Any]]()
        while (found := tables.partitions(image, start=len(rows), **asked))["rows"]:
            rows += found["rows"]
        assert len(rows) == found["total"]
        return [(row["topic"], row["partition"]) for row in rows]

    def expected(condition: Any) -> list[tuple[str, int]]:
        return sorted(
            (image.topics[topic_id], number)
            for topic_id, some in image.partitions.items()
            for number, one in some.items()
            if condition(one)
        )

    assert places(only="offline") == expected(lambda one: one.leader < 0)
    assert places(only="under") == expected(lambda one: len(one.isr) < len(one.replicas))
    assert sorted(places(only="1")) == expected(lambda one: 1 in one.replicas)
    name = sorted(image.topic_ids)[0]
    numbers = image.partitions[image.topic_ids[name]]
    assert places(topic=name) == [(name, number) for number in sorted(numbers)]
    assert tables.partitions(image, topic=name)["configs"].keys() == (
        image.configs.get((2, name), {}).keys()
    )


@pytest.mark.parametrize(
    "asked", [{}, {"topic": "no such topic"}, {"only": "x"}, {"only": "9" * 5000}, {"only": "-1"}]
)
def test_other_lists_are_refused(made: tuple[Tables, Image], asked: dict[str, Any]) -> None:
    tables, image = made
    with pytest.raises(BadTable):
        tables.partitions(image, **asked)


def test_other_columns_are_refused(made: tuple[Tables, Image]) -> None:
    tables, image = made
    for read in (tables.topics, tables.brokers):
        with pytest.raises(BadTable, match="no column"):
            read(image, TableQuery(sort="secret"))


def test_topics_of_odd_names_come_and_go(tmp_path: Any) -> None:
    kept = ChangeIndex(ENCODER)
    log = opened(write_hostile_log(tmp_path))
    image = Image()
    for piece in pieces(log):
        for change in piece.changes:
            kept.add(change)
    found = kept.tables.topics(image, TableQuery())
    assert set(NAMES) <= {row["name"] for row in found["rows"]}
