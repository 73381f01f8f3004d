"""The differences between two releases' facts, as ``python -m tools.import_kafka`` prints them."""

from __future__ import annotations

from typing import Any

from tools.facts.compare import differences, to_look_at

BEFORE: Any = {
    "errors": [
        {"code": 1, "name": "A", "retriable": False},
        {"code": 2, "name": "B", "retriable": False},
    ],
    "apis": [{"key": 7, "name": "X", "listeners": ["broker"]}],
    "configKeys": {"topic": {"a.b": {"type": "INT", "default": "1"}}},
}


def test_equal_facts_have_no_difference_and_nothing_to_look_at() -> None:
    assert differences(BEFORE, BEFORE) == []
    assert to_look_at([]) == []


def test_row_that_comes_between_others_is_the_only_difference() -> None:
    after = {
        **BEFORE,
        "errors": [
            BEFORE["errors"][0],
            {"code": 3, "name": "C", "retriable": True},
            BEFORE["errors"][1],
        ],
    }
    assert differences(BEFORE, after) == ["+ /errors/C: code=3 retriable=True"]


def test_removed_and_changed_facts_are_reported_with_old_values() -> None:
    after = {
        "errors": BEFORE["errors"][1:],
        "apis": [{"key": 7, "name": "X", "listeners": ["broker", "controller"]}],
        "configKeys": {"topic": {"a.b": {"type": "INT", "default": "2"}}},
    }
    lines = differences(BEFORE, after)
    assert lines == [
        "~ /apis/X/listeners: broker -> broker, controller",
        "~ /configKeys/topic/a.b: type=INT default=1 -> type=INT default=2",
        "- /errors/A: code=1 retriable=False",
    ]
    assert [advice.split(":")[0] for advice in to_look_at(lines)][1:] == [
        "gateway/handlers/table.py", "gateway/controller/configs/topic_keys.py",
    ]  # fmt: skip


def test_large_table_of_plain_values_is_compared_value_by_value() -> None:
    modes = {f"key.{number}": "cluster-wide" for number in range(20)}
    assert differences({"modes": modes}, {"modes": {**modes, "key.3": "per-broker"}}) == [
        "~ /modes/key.3: cluster-wide -> per-broker"
    ]
