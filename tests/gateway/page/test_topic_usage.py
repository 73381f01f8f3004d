"""Usage of topics on a broker: sizes, rates of the last seconds, and a pass that is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from gateway.base.slices import run
from gateway.page.tables import TableQuery
from gateway.page.topic_usage import TopicMeter, TopicUsage, usage_of
from gateway.ports.replicas import LogSize
from gateway.sources.append_counts import AppendCounts
from tests.gateway.page.sample_log import index, state

SIZES = [LogSize("a", 0, 100), LogSize("a", 1, 20), LogSize("b", 0, 7)]


def counts_of(messages: int, size: int, out: int) -> AppendCounts:
    counts = AppendCounts()
    counts.add(messages, size)
    counts.fetched(out, of_follower=False)
    counts.fetched(999, of_follower=True)
    return counts


def test_size_is_that_of_all_logs_of_the_topic() -> None:
    meter = TopicMeter()
    run(meter.measure(SIZES, {"a": AppendCounts()}, 1.0))
    assert meter.usage == {"a": TopicUsage(120), "b": TopicUsage(7)}
    assert meter.partitions == 3
    assert usage_of(meter.usage, "elsewhere") == TopicUsage()


def test_rates_are_of_the_last_5_to_10_seconds() -> None:
    meter, counts = TopicMeter(), {"a": counts_of(50, 5000, 0)}
    run(meter.measure(SIZES, counts, 100.0))
    assert meter.usage["a"] == TopicUsage(120)  # what came before is no rate
    for second in range(2, 31, 2):
        counts["a"].add(20, 400)
        counts["a"].fetched(1000, of_follower=False)
        run(meter.measure(SIZES, counts, 100.0 + second))
        assert meter.usage["a"] == TopicUsage(120, 10.0, 200.0, 500.0)
        assert meter.usage["b"] == TopicUsage(7)
    for second in range(32, 44, 2):  # nothing more comes
        run(meter.measure(SIZES, counts, 100.0 + second))
    assert meter.usage["a"] == TopicUsage(120)


def test_topic_that_was_created_again_counts_from_nothing() -> None:
    meter = TopicMeter()
    run(meter.measure(SIZES, {"a": counts_of(50, 5000, 50)}, 10.0))
    run(meter.measure(SIZES, {"a": counts_of(20, 400, 10)}, 12.0))
    assert meter.usage["a"] == TopicUsage(120, 10.0, 200.0, 5.0)


def test_forgotten_usage_is_measured_anew() -> None:
    meter, counts = TopicMeter(), {"a": counts_of(50, 5000, 50)}
    run(meter.measure(SIZES, counts, 10.0))
    meter.forget()
    assert meter.usage == {}
    counts["a"].add(20, 400)
    run(meter.measure(SIZES, counts, 12.0))
    assert meter.usage["a"] == TopicUsage(120)


def test_pass_over_many_partitions_is_cut_and_shown_at_its_end() -> None:
    looked_at = 0

    def sizes() -> Iterator[LogSize]:
        nonlocal looked_at
        for number in range(10_000):
            looked_at += 1
            yield LogSize(f"topic-{number // 10}", number % 10, 1)

    meter = TopicMeter()
    work = meter.measure(sizes(), {}, 1.0)
    steps = [looked_at for _ in work]
    assert max(after - before for before, after in pairwise(steps)) <= 200
    assert len(steps) >= 50
    assert meter.partitions == 10_000
    assert meter.usage["topic-999"] == TopicUsage(10)


@pytest.mark.parametrize("column", TopicUsage._fields)
def test_topics_are_sorted_by_their_usage(column: str) -> None:
    tables, image = index().tables, state()
    names = sorted(image.topic_ids)
    usage = {name: TopicUsage(7 * n % 5, n % 3, n % 4, -n) for n, name in enumerate(names[1:])}
    found = tables.topics(image, TableQuery(column, descending=True), usage)
    assert found["hasUsage"]
    values = [row[column] for row in found["rows"]]
    assert values == sorted(values, reverse=True)
    for row in found["rows"]:
        assert row.items() >= usage_of(usage, row["name"])._asdict().items()


def test_topics_of_a_node_that_is_no_broker_have_no_usage() -> None:
    found = index().tables.topics(state(), TableQuery())
    assert not found["hasUsage"]
    assert not found["rows"][0].keys() & set(TopicUsage._fields)
