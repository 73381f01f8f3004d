from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.log.files.disk import Disk
from gateway.log.files.leader_epoch_checkpoint import read_leader_epochs
from gateway.log.segments.epoch_cache import EpochCache

#: The epoch of each offset from 10 on.
_epochs = st.lists(st.integers(0, 6), min_size=1, max_size=20).map(sorted)


def filled(epochs: list[int]) -> EpochCache:
    cache = EpochCache()
    for offset, epoch in enumerate(epochs, 10):
        cache.assign(epoch, offset)
    return cache


@given(_epochs, st.integers(-2, 9))
def test_the_end_of_an_epoch_is_the_start_of_the_next_known_one(
    epochs: list[int], asked: int
) -> None:
    found = filled(epochs).end_offset_for(asked, 10 + len(epochs))
    floor = max((epoch for epoch in epochs if epoch <= asked), default=None)
    if asked < 0 or asked > epochs[-1]:
        assert found == (-1, -1)
    elif floor is None:
        assert found == (asked, 10)
    else:
        assert found == (floor, 10 + sum(epoch <= asked for epoch in epochs))


@given(_epochs, st.integers(8, 32))
def test_truncation_from_the_end_is_as_if_it_had_never_been(epochs: list[int], offset: int) -> None:
    cache = filled(epochs)
    cache.truncate_from_end(offset)
    assert cache.entries == filled(epochs[: max(0, offset - 10)]).entries
    assert cache.latest == (epochs[: offset - 10][-1] if offset > 10 else None)


@given(_epochs, st.integers(8, 29))
def test_truncation_from_the_start_keeps_the_epoch_that_holds_it(
    epochs: list[int], offset: int
) -> None:
    cache = filled(epochs)
    cache.truncate_from_start(offset)
    start = max(offset, 10)
    left = epochs[start - 10 :] or epochs[-1:]
    expected = EpochCache()
    for number, epoch in enumerate(left):
        expected.assign(epoch, start + number)
    assert cache.entries == expected.entries


def test_nothing_is_known_of_an_empty_log() -> None:
    assert EpochCache().end_offset_for(0, 0) == (-1, -1)
    assert EpochCache().latest is None


def test_it_is_written_when_it_changed_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = EpochCache()
    cache.save(Disk(), tmp_path)
    assert read_leader_epochs(path) == []
    cache.assign(1, 0)
    cache.assign(1, 7)
    cache.assign(4, 9)
    cache.save(Disk(), tmp_path)
    assert path.read_text() == "0\n2\n1 0\n4 9\n"
    path.unlink()
    cache.assign(4, 12)
    cache.save(Disk(), tmp_path)
    assert not path.exists()
    cache.truncate_from_end(9)
    cache.save(Disk(), tmp_path)
    assert read_leader_epochs(path) == [(1, 0)]
    EpochCache([(1, 0)], saved=[(1, 0)]).save(Disk(), tmp_path / "nowhere")
