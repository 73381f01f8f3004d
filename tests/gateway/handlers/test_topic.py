"""Topic names, leader epochs and partition errors that several handlers share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.handlers.topic import end_of_epoch, epoch_fault, is_valid_name, partition_fault
from gateway.ports.services import State
from kwire.protocol import ErrorCode
from tests.gateway.handlers.world import Batch, MemoryPartition


@given(st.text(alphabet="abcXYZ019._-", min_size=1, max_size=249))
def test_legal_name_is_valid(name: str) -> None:
    assert is_valid_name(name) == (name not in (".", ".."))


@given(
    st.text(min_size=1, max_size=20).filter(
        lambda text: any(not (c.isascii() and (c.isalnum() or c in "._-")) for c in text)
    )
)
def test_name_with_other_characters_is_invalid(name: str) -> None:
    assert not is_valid_name(name)


@pytest.mark.parametrize("name", ["", "a" * 250, ".", ".."])
def test_name_of_invalid_form_is_invalid(name: str) -> None:
    assert not is_valid_name(name)


def test_loading_partition_has_no_leader() -> None:
    assert (
        partition_fault(MemoryPartition(state=State.LOADING), 5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


@given(st.integers(-1, 100), st.integers(0, 100))
def test_client_epoch_is_compared_with_the_partitions(asked: int, current_epoch: int) -> None:
    fault = epoch_fault(MemoryPartition([Batch(0, 0, current_epoch)]), asked)
    if asked in (-1, current_epoch):
        assert fault is ErrorCode.NONE
    else:
        assert fault is (
            ErrorCode.FENCED_LEADER_EPOCH
            if asked < current_epoch
            else ErrorCode.UNKNOWN_LEADER_EPOCH
        )


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=8),
    st.integers(-3, 30),
    st.integers(0, 20),
)
def test_the_end_of_an_epoch_is_where_the_next_one_begins(
    steps: list[tuple[int, int]], epoch: int, start: int
) -> None:
    partition = MemoryPartition(log_start_offset=start)
    now = 1
    for count, step in steps:
        now += step
        partition.append(count, epoch=now)
    found, end = end_of_epoch(partition, epoch)
    if epoch == -1 or epoch > now:
        assert (found, end) == (-1, -1)
    elif epoch < partition.batches[0].epoch:
        assert (found, end) == (epoch, start)
    else:
        assert found == max(batch.epoch for batch in partition.batches if batch.epoch <= epoch)
        pending = [batch.first for batch in partition.batches if batch.epoch > found]
        assert end == (pending[0] if pending else partition.high_watermark)
