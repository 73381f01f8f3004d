"""The log as the core sees it: what is durable, what a leader says to a position, what is left
after cutting and cleaning.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quorum.divergence import truncation_offset
from gateway.quorum.partition import Position
from gateway.quorum.replicated_log import ReplicatedLog, ValidOffsetAndEpoch
from gateway.quorum.response_checks import InvalidResponse
from gateway.quorum.settings import Stored
from kwire.metadata_log.snapshot_id import SnapshotId

#: Epochs 1 (offsets 0 to 4), 3 (5 to 9), 6 (10 to 14).
STORED = Stored(end_offset=15, epochs=((1, 0), (3, 5), (6, 10)))


def diverging(epoch: int, offset: int) -> ValidOffsetAndEpoch:
    return ValidOffsetAndEpoch(diverging=Position(offset, epoch))


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict"),
    [
        (0, 0, ValidOffsetAndEpoch()),
        (15, 6, ValidOffsetAndEpoch()),
        (12, 6, ValidOffsetAndEpoch()),
        (5, 1, ValidOffsetAndEpoch()),
        (5, 3, ValidOffsetAndEpoch()),
        (16, 6, diverging(6, 15)),  # more than there is
        (6, 1, diverging(1, 5)),  # longer in an epoch than the leader
        (8, 2, diverging(1, 5)),  # an epoch that the leader does not have: the one before
        (12, 5, diverging(3, 10)),
        (15, 7, diverging(6, 15)),  # a later one
        (3, 0, diverging(0, 0)),
    ],
)
def test_positions_without_snapshots(offset: int, epoch: int, verdict: ValidOffsetAndEpoch) -> None:
    assert ReplicatedLog(STORED).validate(offset, epoch) == verdict


#: The same with everything below 7 gone, and a second, newer snapshot.
CLEANED = Stored(
    start_offset=7,
    start_epoch=3,
    end_offset=15,
    epochs=((3, 7), (6, 10)),
    snapshots=(SnapshotId(7, 3), SnapshotId(12, 6)),
)


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict"),
    [
        (0, 0, ValidOffsetAndEpoch(snapshot=SnapshotId(12, 6))),
        (6, 3, ValidOffsetAndEpoch(snapshot=SnapshotId(12, 6))),  # below the log
        (
            7,
            1,
            ValidOffsetAndEpoch(snapshot=SnapshotId(12, 6)),
        ),  # at its start, with another epoch than the snapshot there
        (
            8,
            2,
            ValidOffsetAndEpoch(snapshot=SnapshotId(12, 6)),
        ),  # an epoch older than the oldest snapshot
        (7, 3, ValidOffsetAndEpoch()),
        (9, 3, ValidOffsetAndEpoch()),
        (11, 3, diverging(3, 10)),
        (15, 6, ValidOffsetAndEpoch()),
        (16, 6, diverging(6, 15)),
    ],
)
def test_positions_with_snapshots(offset: int, epoch: int, verdict: ValidOffsetAndEpoch) -> None:
    assert ReplicatedLog(CLEANED).validate(offset, epoch) == verdict


def test_offset_zero_goes_to_the_snapshot_even_where_the_log_is_whole() -> None:
    log = ReplicatedLog(
        Stored(end_offset=15, epochs=((1, 0), (3, 5)), snapshots=(SnapshotId(5, 1),))
    )
    assert log.validate(0, 0) == ValidOffsetAndEpoch(snapshot=SnapshotId(5, 1))
    assert log.validate(1, 1) == ValidOffsetAndEpoch()


def test_the_snapshot_of_formatting_is_none() -> None:
    log = ReplicatedLog(Stored(end_offset=3, epochs=((1, 0),), snapshots=(SnapshotId(0, 0),)))
    assert log.latest_snapshot is None
    assert log.validate(0, 0) == ValidOffsetAndEpoch()


def test_an_empty_log_after_a_snapshot() -> None:
    log = ReplicatedLog(
        Stored(start_offset=9, start_epoch=4, end_offset=9, snapshots=(SnapshotId(9, 4),))
    )
    assert log.last_epoch == 4
    assert log.validate(9, 4) == ValidOffsetAndEpoch()
    assert log.validate(10, 4) == diverging(4, 9)
    assert log.validate(0, 0) == ValidOffsetAndEpoch(snapshot=SnapshotId(9, 4))


def test_durable_tokens_raise_the_flushed_offset() -> None:
    log = ReplicatedLog(STORED)
    log.append(1, 18, [(6, 15)])
    log.append(2, 20, [(7, 18)])
    assert (log.flushed, log.end_offset, log.last_epoch) == (15, 20, 7)
    assert log.synced(1) and log.flushed == 18
    assert not log.synced(1)
    assert log.synced(2) and log.flushed == 20


def test_truncated_records_are_not_durable_when_their_append_is() -> None:
    """An append that is still on its way when the log is cut behind it counts up to the cut,
    however long it grows then.
    """
    log = ReplicatedLog(STORED)
    log.append(1, 18, [(6, 15)])
    log.truncate_to(16)
    log.append(3, 25, [(8, 16)])
    log.synced(1)
    assert (log.flushed, log.end_offset) == (16, 25)
    log.synced(3)
    assert log.flushed == 25
    assert log.epochs == ((1, 0), (3, 5), (6, 10), (8, 16))


def test_cutting_forgets_epochs() -> None:
    log = ReplicatedLog(STORED)
    log.truncate_to(10)
    assert (log.epochs, log.last_epoch, log.flushed) == (((1, 0), (3, 5)), 3, 10)


def test_cleaned_log_starts_later_with_the_epoch_in_force() -> None:
    log = ReplicatedLog(STORED)
    log.add_snapshot(SnapshotId(10, 3))
    log.clean(7, [SnapshotId(10, 3)])
    assert (log.start_offset, log.epochs) == (7, ((3, 7), (6, 10)))
    log.clean(10, [SnapshotId(10, 3)])
    assert (log.start_offset, log.epochs) == (10, ((6, 10),))
    assert log.validate(10, 3) == ValidOffsetAndEpoch()


def test_cleaning_everything() -> None:
    log = ReplicatedLog(STORED)
    log.clean(15, [SnapshotId(15, 6)])
    assert (log.epochs, log.last_epoch, log.end) == ((), 6, Position(15, 6))


def test_installed_snapshot_replaces_log_and_epochs() -> None:
    log = ReplicatedLog(STORED)
    log.append(1, 18, [(6, 15)])
    log.truncate_to_snapshot(SnapshotId(100, 9))
    assert (log.start_offset, log.end, log.flushed, log.epochs) == (100, Position(100, 9), 100, ())
    log.synced(1)
    assert log.flushed == 100


@pytest.mark.parametrize(
    ("leaders", "target"),
    [
        (Position(12, 6), 12),  # the same epoch, shorter there
        (Position(99, 6), 15),  # nothing contradicts the local log
        (Position(7, 3), 7),
        (Position(99, 3), 10),  # our epoch 3 ends at 10
        (
            Position(9, 5),
            10,
        ),  # the local epoch is older: its end, and not the middle of a batch of it
        (Position(3, 2), 5),
        (Position(0, 0), 0),
    ],
)
def test_where_a_log_is_cut(leaders: Position, target: int) -> None:
    assert truncation_offset(ReplicatedLog(STORED), leaders) == target


def test_a_divergence_in_an_epoch_that_the_fetch_did_not_name_is_invalid() -> None:
    with pytest.raises(InvalidResponse):
        truncation_offset(ReplicatedLog(STORED), Position(15, 7))


_BATCHES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=8)


def _log(
    shared: list[tuple[int, int]], own: list[tuple[int, int]], odd: int
) -> tuple[ReplicatedLog, list[int]]:
    """A log of batches (epoch step, records): the shared ones, then its own, whose epochs are odd
    or even.
    """
    epoch, offset, epochs, boundaries = 0, 0, [], [0]
    for step, count in shared:
        epoch += step
        epochs.append((epoch, offset))
        offset += count
        boundaries.append(offset)
    for step, count in own:
        epoch += step
        epoch += (epoch + odd) % 2
        epochs.append((epoch, offset))
        offset += count
        boundaries.append(offset)
    firsts = [entry for n, entry in enumerate(epochs) if not n or epochs[n - 1][0] != entry[0]]
    return ReplicatedLog(Stored(end_offset=offset, epochs=tuple(firsts))), boundaries


@given(_BATCHES, _BATCHES, _BATCHES)
def test_two_logs_always_meet_at_what_they_share(
    shared: list[tuple[int, int]], leaders: list[tuple[int, int]], followers: list[tuple[int, int]]
) -> None:
    """A follower is led back to the common part of both logs, never below it, and always to the end
    of a batch.
    """
    leader, _ = _log(shared, leaders, 1)
    follower, boundaries = _log(shared, followers, 0)
    common = sum(count for _, count in shared)
    for _ in range(40):
        verdict = leader.validate(follower.end_offset, follower.last_epoch)
        assert verdict.snapshot is None
        if verdict.diverging is None:
            break
        target = truncation_offset(follower, verdict.diverging)
        assert common <= target < follower.end_offset
        assert target in boundaries
        follower.truncate_to(target)
    else:
        raise AssertionError("it never ends")
    assert follower.end_offset <= common or not followers
