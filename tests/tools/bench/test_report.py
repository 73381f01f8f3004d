"""The table of measurements: which bars hold, and what a page says."""

from __future__ import annotations

import pytest

from tools.bench.measure import import_cost, microseconds
from tools.bench.report import holds, markdown, show


def test_bar_is_on_the_ratio_or_given_by_ok() -> None:
    assert holds({"ratio": 2.2, "bar": 2.2}) is True
    assert holds({"ratio": 2.19, "bar": 2.2}) is False
    assert holds({"ratio": 0.1, "bar": None}) is None
    assert holds({"ok": False}) is False
    assert holds({"what": "something without a bar"}) is None


def test_the_page_has_every_row_and_the_machine() -> None:
    rows = [
        {
            "bench": "codec",
            "what": "decode a|b",
            "unit": "µs",
            "kwire": 12.345,
            "peer": "x",
            "peer_value": 24_690.0,
            "ratio": 2000.0,
            "bar": 2.0,
            "bytes": 428,
        },
        {"bench": "serving", "what": "start", "kwire": 0.7, "ok": False, "notes": "below 0.5 s"},
    ]
    page = markdown(rows, "a machine, commit 1234567").splitlines()
    assert "Measured on: a machine, commit 1234567" in page
    assert (
        page[-2]
        == r"| codec | decode a\|b | µs | 12.3 | x | 24,690 | 2,000 | 2 | yes | bytes 428 |"
    )
    assert page[-1] == "| serving | start |  | 0.7 |  |  |  |  | NO | below 0.5 s |"


def test_the_table_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"bench": "codec", "what": "w" * 100, "ratio": 1.0, "bar": 2.0, "notes": "n" * 40}])
    printed = capsys.readouterr().out
    assert "w" * 100 in printed
    assert "n" * 40 in printed


def test_times_are_of_one_call_and_imports_cost_something() -> None:
    times = microseconds({"nothing": lambda: None, "much": lambda: sum(range(20_000))})
    assert 0 < times["nothing"] < times["much"] < 1e6
    milliseconds, mebibytes = import_cost("import decimal", rounds=1)
    assert milliseconds > 0
    assert mebibytes >= 0
