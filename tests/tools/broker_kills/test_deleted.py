"""The writer of a compacted topic knows its records by their numbers."""

from __future__ import annotations

import pytest

from tools.broker_kills import deleted
from tools.broker_kills.deleted import Keyed
from tools.broker_kills.judge import Kept


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Keyed:
    """Its records 4, 8 and 28, a tombstone, are acknowledged; 8 without an offset."""
    writer = Keyed("127.0.0.1:1", "t", 0.0)
    writer.acknowledged[0] = {0: 4, 2: 28}
    writer.elsewhere[0] = {8}
    kept = [Kept(offset, *writer._written(number)) for offset, number in enumerate([4, 8, 28])]
    monkeypatch.setattr(deleted, "records", lambda bootstrap, topic: {0: kept})
    return writer


def test_record_that_was_acknowledged_without_an_offset_is_known(writer: Keyed) -> None:
    assert writer.violations() == []
    assert writer.counts() == {"keyed": 3, "keyed_kept": 3}


def test_record_that_nobody_acknowledged_is_a_violation(writer: Keyed) -> None:
    writer.elsewhere.clear()
    assert writer.violations() == ["partition 0: not what was written at [1]"]
