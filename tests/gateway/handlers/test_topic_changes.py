"""The names of changed topics: those of each step, as far back as they are remembered."""

from __future__ import annotations

import pytest

from gateway.handlers.topic_changes import TopicChanges


def test_step_without_a_name_is_none() -> None:
    changes = TopicChanges()
    for step in (["a", "b"], [], ["a"]):
        changes.add(step)
    assert changes.number == 2
    assert [changes.since(number) for number in range(3)] == [["a", "a", "b"], ["a"], []]


def test_old_changes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.handlers.topic_changes._NAMES_MAX", 5)
    changes = TopicChanges()
    for number in range(4):
        changes.add([f"{number}-0", f"{number}-1"])
    assert changes.since(2) == ["3-0", "3-1", "2-0", "2-1"]
    assert changes.since(1) is changes.since(0) is None
    changes.add(str(number) for number in range(100))
    assert changes.since(4) == [str(number) for number in range(100)]
    assert changes.since(3) is None
