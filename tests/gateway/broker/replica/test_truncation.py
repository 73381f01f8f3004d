"""How far a follower cuts its log back (KIP-101, 279, 320)."""

import pytest

from gateway.broker.replica.truncation import truncation_target


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
