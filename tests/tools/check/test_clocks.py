"""The rules on clocks find verdicts by time and waiting by hand, and pass over work."""

from __future__ import annotations

import ast

import pytest

from tools.check import clocks


def rules(text: str, name: str = "tests/gateway/test_one.py") -> list[str]:
    """The rules that a file of this text breaks, in order."""
    return [one.rule for one in clocks.findings(text, ast.parse(text), name)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("assert time.monotonic() - began < 5\n", "clock"),
        ("assert MAX_S > time.process_time() - began\n", "clock"),
        ("took = trio.current_time() - began\nassert 1 <= took < 2, took\n", "clock"),
        ("times.append(thread_time() - began)\nassert min(times) < 0.1\n", "clock"),
        ("a, b = perf_counter() - x, 1\nassert a < 0.1\n", "clock"),
        ("ends = time.monotonic() + 5\nwhile time.monotonic() < ends:\n    ask()\n", "clock"),
        ("if time.monotonic_ns() > deadline:\n    raise TimeoutError\n", "clock"),
        ("with trio.fail_after(5):\n    ask()\n", "limit"),
        ("def until(condition):\n    pass\n", "waits"),
        ("async def _wait_for(condition):\n    pass\n", "waits"),
        ("while not ready():\n    time.sleep(0.1)\n", "poll"),
        ("while count < 5:\n    if count:\n        await trio.sleep(0.1)\n", "poll"),
    ],
)
def test_rule_finds_a_verdict_by_the_clock(text: str, rule: str) -> None:
    assert rules(text) == [rule]
    assert rules(text, "gateway/one.py") == [], "programs may look at the clock"
    assert rules(text, "tests/waiting.py") == []


@pytest.mark.parametrize(
    "text",
    [
        "assert calls < 2_500\nbegan = time.monotonic()\n",
        "assert trio.current_time() == 5\n",
        "with trio.fail_after(60):\n    ask()\n",
        "with trio.move_on_after(0.1):\n    ask()\n",
        "def wait_for_topics(names):\n    until(lambda: names <= topics(), 'the topics')\n",
        "while True:\n    ask()\n    time.sleep(0.1)\n",
    ],
)
def test_work_and_a_long_limit_have_no_findings(text: str) -> None:
    assert rules(text) == []
