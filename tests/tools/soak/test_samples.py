"""The soak tells processes that grow from those that do not, and draws both."""

from __future__ import annotations

import pytest

from tools.soak.samples import Sample, chart, grew, growth


def run(*memory: float, descriptors: int = 30) -> list[Sample]:
    return [Sample(60.0 * n, mib, descriptors) for n, mib in enumerate(memory)]


def test_growth_begins_after_the_time_to_settle() -> None:
    samples = run(10, 50, 60, 60, 61, 60)
    assert growth(samples, 120) == {
        "memory_mib_then": 60,
        "memory_mib_at_the_end": 60,
        "memory_mib_an_hour": 6,
        "descriptors_then": 30,
        "descriptors_at_the_end": 30,
    }
    assert not grew(samples, 120)
    assert grew(samples, 60)


def test_one_high_sample_is_no_growth() -> None:
    samples = [*run(*[60.0] * 40), Sample(2400, 500, 400), Sample(2460, 60, 30)]
    assert not grew(samples, 0)


@pytest.mark.parametrize(("more", "expected"), [(10, False), (11, True)])
def test_descriptors_may_grow_by_the_connections_of_the_load(more: int, expected: bool) -> None:
    samples = [*run(60), Sample(60, 60, 30 + more)]
    assert grew(samples, 0) is expected


def test_growth_of_too_short_a_run_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than two samples after 600 s"):
        growth(run(60, 60), 600)


def test_chart_has_at_most_24_points_of_each_line() -> None:
    lines = [[(60.0 * n, float(n)) for n in range(121)], [(60.0 * n, 3.0) for n in range(121)]]
    drawn = chart("Memory: a and b", "MiB", lines).splitlines()
    assert drawn[:2] == ["```mermaid", "xychart-beta"] and drawn[-1] == "```"
    assert drawn[3].startswith('    x-axis "minutes" [0, 6, 12,')
    assert drawn[4] == '    y-axis "MiB" 0 --> 150'
    assert [line.count(",") + 1 for line in drawn[5:-1]] == [21, 21]
