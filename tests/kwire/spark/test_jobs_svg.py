"""Pictures of jobs: bars and spans as SVG, whatever the names in them are."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.spark.jobs_svg import bars, picture, spans

START = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
_SVG = "{http://www.w3.org/2000/svg}"


def widths(svg: str) -> list[float]:
    return [float(one.attrib["width"]) for one in ElementTree.fromstring(svg).iter(f"{_SVG}rect")]


def test_bars_are_as_long_as_their_values() -> None:
    small, large, none = widths(bars("a < b", [("<one> & two", 5), ("two", 10), ("three", 0)]))
    assert (large, none) == (2 * small, 1)


def test_spans_lie_where_their_times_are_and_an_open_one_goes_to_the_end() -> None:
    hour = timedelta(hours=1)
    found = [
        ("broker 1", START, START + hour, "fenced"),
        ("broker 1", START + hour, None, "active"),
        ("broker 2", START + 4 * hour, None, "active"),
    ]
    svg = spans("brokers", found)
    fenced, active, late = widths(svg)
    assert active == pytest.approx(3 * fenced) and late == 1
    assert svg.count('class="label"') == 2


def test_nothing_is_a_picture_too() -> None:
    for job in ("brokers", "load", "isr"):
        assert not widths(picture(job, []))
    with pytest.raises(KeyError):
        picture("weather", [])
