"""How far a follower cuts its log back (KIP-101, 279, 320)."""

import pytest

from gateway.broker.replica.followed import Position
from gateway.broker.replica.truncation import begins_anew, truncation_target


@pytest.mark.parametrize(
    ("epochs", "end", "leaders", "target"),
    [
        pytest.param([(1, 0), (3, 10)], 20, (3, 15), 15, id="leader-has-less-of-the-epoch"),
        pytest.param([(1, 0), (3, 10)], 20, (3, 25), 20, id="leader-has-more-of-the-epoch"),
        pytest.param([(1, 0), (3, 10)], 20, (1, 7), 7, id="leader-left-the-older-epoch-earlier"),
        pytest.param([(1, 0), (3, 10)], 20, (1, 12), 10, id="leader-left-the-older-epoch-later"),
        # The leader's end may lie in the middle of an epoch that the follower has and it has not.
        pytest.param([(1, 0), (3, 10)], 20, (2, 5), 10, id="epoch-that-the-follower-lacks"),
        pytest.param([(1, 0), (5, 10)], 10, (1, 30), 10, id="epoch-begun-without-a-record"),
        pytest.param([(4, 10), (5, 15)], 20, (2, 30), 10, id="epoch-older-than-the-log"),
        pytest.param([(4, 10), (5, 15)], 20, (2, 3), 3, id="end-before-the-log"),
        pytest.param([], 20, (2, 12), 12, id="log-without-epochs"),
        pytest.param([(1, 0)], 20, (2, 12), 12, id="epoch-newer-than-the-log"),
    ],
)
def test_target(
    epochs: list[tuple[int, int]], end: int, leaders: tuple[int, int], target: int
) -> None:
    assert truncation_target(epochs, end, *leaders) == target


@pytest.mark.parametrize(
    ("end", "epoch", "committed", "leaders_start", "expected"),
    [
        pytest.param(20, 1, 7, 20, True, id="nothing-left-to-compare"),
        pytest.param(20, 1, 7, 25, True, id="leader-begins-behind-the-log"),
        pytest.param(20, 1, 20, 20, False, id="everything-known-as-committed"),
        pytest.param(20, 3, 7, 20, False, id="records-of-this-very-leader"),
        pytest.param(20, 1, 7, 19, False, id="leader-still-has-a-record-of-the-follower"),
        pytest.param(0, -1, 0, 0, False, id="empty"),
    ],
)
def test_log_that_the_leader_can_not_compare_begins_anew(
    end: int, epoch: int, committed: int, leaders_start: int, expected: bool
) -> None:
    assert begins_anew(Position(0, end, epoch), committed, 3, leaders_start) is expected
