"""The table of measurements: which bars hold, and what a page says."""

from __future__ import annotations

import pytest

from tools.bench.measure import import_cost, microseconds
from tools.bench.report import holds, page, show


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
    text = page("", rows, "a machine, commit 1234567").splitlines()
    assert text.count("Measured on: a machine, commit 1234567") == 2
    assert (
        text[text.index("## codec") + 6]
        == r"| decode a\|b | µs | 12.3 | x | 24,690 | 2,000 | 2 | yes | bytes 428 |"
    )
    assert text[-1] == "| start |  | 0.7 |  |  |  |  | NO | below 0.5 s |"


def test_the_page_keeps_the_benches_that_were_not_run() -> None:
    def row(bench: str, value: float) -> dict[str, object]:
        return {"bench": bench, "what": "decode", "kwire": value}

    before = page("", [row("codec", 1.0), row("serving", 2.0)], "a machine, commit 1")
    after = page(before, [row("serving", 3.0), row("views", 4.0)], "a machine, commit 2")
    codec, serving, views = after.split("\n## ")[1:]
    assert "commit 1\n" in codec and "| decode |  | 1 |" in codec
    assert "commit 2\n" in serving and "| decode |  | 3 |" in serving and "| 2 |" not in serving
    assert views.startswith("views\n") and "commit 2\n" in views
    assert page(after, [], "a machine, commit 3") == after


def test_the_table_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"bench": "codec", "what": "w" * 100, "ratio": 1.0, "bar": 2.0, "notes": "n" * 40}])
    printed = capsys.readouterr().out
    assert "w" * 100 in printed
    assert "n" * 40 in printed


def test_times_are_of_one_call_and_imports_cost_something() -> None:
    times = microseconds({"nothing": lambda: None, "much": lambda: sum(range(20_000))})
    assert times["nothing"] < times["much"]
    _, little = import_cost("pass", rounds=1)
    _, much = import_cost("kept = bytearray(1 << 24)", rounds=1)
    assert much - little > 8
