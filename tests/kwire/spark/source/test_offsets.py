"""Positions in a checkpoint, against logs given as the offsets where their epochs begin."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from hypothesis import given
from hypothesis import strategies as st

from kwire.spark.source.offsets import EndOfEpoch, LogState, Position, epoch_before, loss_at, slices


def log(begins: dict[int, int], end: int, start: int = 0) -> tuple[LogState, EndOfEpoch]:
    """A log from ``start`` to ``end`` whose epochs begin at ``begins``, and what Kafka answers
    about them.
    """
    last = max(begins)

    def end_of_epoch(epoch: int) -> tuple[int, int]:
        if epoch > last:
            return -1, -1
        known = [one for one in begins if one <= epoch]
        if not known:
            return epoch, start
        found = max(known)
        return found, min((at for one, at in begins.items() if one > found), default=end)

    return LogState("cluster", "topic", start, end, last), end_of_epoch


def at(offset: int, epoch: int = -1, cluster: str = "cluster", topic: str = "topic") -> Position:
    return Position(cluster, topic, epoch, offset)


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 0), min_size=1), st.data())
def test_the_epoch_before_an_offset(epochs: dict[int, int], data: st.DataObject) -> None:
    begins, end = {}, 0
    for epoch in sorted(epochs):
        begins[epoch] = end
        end += data.draw(st.integers(1, 20))
    state, end_of_epoch = log(begins, end)
    assert epoch_before(0, state, end_of_epoch) == -1
    for offset in range(1, end + 1):
        epoch = epoch_before(offset, state, end_of_epoch)
        assert epoch == max(one for one, begin in begins.items() if begin < offset)
        assert loss_at(at(offset, epoch), state, end_of_epoch) is None


def test_a_server_that_cannot_tell_epochs() -> None:
    state, _ = log({1: 0}, 100)
    assert epoch_before(50, state, lambda epoch: None) == -1
    assert loss_at(at(50, 7), state, lambda epoch: None) is None
    assert loss_at(at(120, 7), state, lambda epoch: None) is not None


@pytest.mark.parametrize(
    ("position", "words", "resume"),
    [
        (at(50, 2, cluster="other"), "cluster other and the server now has cluster cluster", 20),
        (at(50, 2, topic="other"), "topic id other", 20),
        (at(10, 1), "starts at offset 20: 10 to 19 are gone", 20),
        (at(120, 4), "ends at offset 100, before offset 120", 100),
        (at(120, 9), "ends at offset 100", 20),
        (at(80, 2), "of epoch 2 it has nothing up to offset 80", 60),
        (at(80, 3), "of epoch 3 it has nothing up to offset 80", 60),
        (at(80, 9), "replaced", 20),
    ],
    ids=[
        "cluster",
        "topic",
        "start",
        "shorter",
        "shorter-and-new",
        "cut-back",
        "epoch-gone",
        "epochs-anew",
    ],
)
def test_a_log_that_is_another(position: Position, words: str, resume: int) -> None:
    state, end_of_epoch = log({1: 0, 2: 30, 4: 60}, 100, start=20)
    loss = loss_at(position, state, end_of_epoch)
    assert loss is not None
    assert words in loss.sentence
    assert loss.resume == resume


def test_unknown_parts_of_a_position_are_no_loss() -> None:
    state, end_of_epoch = log({1: 0}, 100)
    for position in (at(50), at(50, 1, cluster=""), at(50, 1, topic=""), at(100, 1), at(0)):
        assert loss_at(position, state, end_of_epoch) is None


def test_a_position_through_a_checkpoint() -> None:
    for position in (
        at(5, 2),
        Position("c", "t", -1, 5, first=5),
        Position("c", "t", 3, 9, first=5),
    ):
        assert Position.of(json.loads(json.dumps(position.to_json()))) == position
    assert Position("c", "t", -1, 5, first=5).initial
    assert not Position("c", "t", 3, 9, first=5).initial and not at(5).initial
    for other in (
        {"__cluster_metadata": {"0": 5}},
        {"offset": 5},
        {**at(5).to_json(), "offset": None},
    ):
        with pytest.raises(ValueError, match="was not written by"):
            Position.of(other)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 20))
def test_slices_cover_a_range(start: int, count: int, parts: int) -> None:
    found = slices(start, start + count, parts)
    assert len(found) == min(parts, count)
    assert [offset for one, end in found for offset in range(one, end)] == list(
        range(start, start + count)
    )
    assert slices(5, 3, 4) == []
