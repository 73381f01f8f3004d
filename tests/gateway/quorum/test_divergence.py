"""The offset that a diverged log is cut back to (``ReplicatedLog.truncateToEndOffset``)."""

from __future__ import annotations

import pytest

from gateway.quorum.divergence import truncation_offset
from gateway.quorum.partition import Position
from gateway.quorum.replicated_log import ReplicatedLog
from gateway.quorum.response_checks import InvalidResponse
from gateway.quorum.settings import Stored

#: Epoch 1 from offset 0, epoch 3 from offset 10, end 20.
LOG = ReplicatedLog(Stored(end_offset=20, epochs=((1, 0), (3, 10))))


@pytest.mark.parametrize(
    ("leaders", "expected"),
    [
        (
            Position(5, 2),
            10,
        ),  # epoch 2 is not here: its end on the leader says nothing about epoch 1
        (Position(5, 1), 5),
        (Position(15, 1), 10),
        (Position(12, 3), 12),
        (Position(25, 3), 20),
        (Position(7, 0), 0),
    ],
)
def test_log_is_cut_to_the_end_of_its_largest_epoch_not_above_the_leaders(
    leaders: Position, expected: int
) -> None:
    assert truncation_offset(LOG, leaders) == expected


def test_diverging_epoch_above_the_fetched_one_is_refused() -> None:
    with pytest.raises(InvalidResponse):
        truncation_offset(LOG, Position(20, 4))


def test_log_without_records_is_cut_to_its_start() -> None:
    log = ReplicatedLog(Stored(start_offset=30, start_epoch=4, end_offset=30))
    assert truncation_offset(log, Position(30, 4)) == 30
    assert truncation_offset(log, Position(12, 2)) == 30
