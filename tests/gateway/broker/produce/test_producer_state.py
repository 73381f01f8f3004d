"""The sequences of idempotent producers: what is new, what comes twice, what is missing."""

from __future__ import annotations

import pytest

from gateway.broker.produce.producer_state import BATCHES_MAX, PRODUCERS_MAX, ProducerStates
from gateway.broker.produce.refusal import BatchRefused
from kwire.protocol import ErrorCode
from kwire.records import BatchHeader, read_header
from tests.gateway.broker.produce.batches import produced


def batch(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, offset: int = 0
) -> BatchHeader:
    data = produced(
        *[b"v"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )
    return read_header(data)._replace(base_offset=offset)


def test_batches_in_order_are_new() -> None:
    states = ProducerStates()
    for sequence in range(0, 30, 3):
        assert states.check(batch(sequence, 3)) is None
        states.append(batch(sequence, 3, offset=sequence))


def test_each_of_the_last_five_batches_is_recognized_when_it_comes_again() -> None:
    states = ProducerStates()
    for sequence in range(7):
        states.append(batch(sequence, offset=100 + sequence))
    for sequence in range(7 - BATCHES_MAX, 7):
        seen = states.check(batch(sequence))
        assert seen is not None and seen.first_offset == 100 + sequence
    with pytest.raises(BatchRefused) as refused:
        states.check(batch(1))
    assert refused.value.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("sequence", [0, 3, 5, 2**31 - 1])
def test_gap_in_the_sequence_is_refused(sequence: int) -> None:
    states = ProducerStates()
    states.append(batch(0, 4))
    with pytest.raises(BatchRefused) as refused:
        states.check(batch(sequence, 2))
    assert refused.value.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_goes_on_with_0_behind_the_largest() -> None:
    states = ProducerStates()
    states.append(batch(2**31 - 1))
    assert states.check(batch(0)) is None
    states.append(batch(2**31 - 2, 4))  # 2^31-2, 2^31-1, 0, 1
    assert states.check(batch(2)) is None


def test_older_epoch_is_refused_and_a_newer_one_begins_with_0() -> None:
    states = ProducerStates()
    states.append(batch(0, epoch=2))
    with pytest.raises(BatchRefused) as refused:
        states.check(batch(1, epoch=1))
    assert refused.value.error is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(BatchRefused) as refused:
        states.check(batch(1, epoch=3))
    assert refused.value.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(0, epoch=3)) is None
    states.append(batch(0, epoch=3))
    assert states.check(batch(1, epoch=3)) is None


def test_unknown_producer_may_begin_anywhere_and_another_is_not_confused_with_it() -> None:
    states = ProducerStates()
    assert states.check(batch(17)) is None
    states.append(batch(17))
    assert states.check(batch(0, producer=8)) is None


def test_batch_without_a_producer_id_has_no_state() -> None:
    states = ProducerStates()
    plain = read_header(produced(b"v"))
    assert states.check(plain) is None
    states.append(plain)
    assert len(states) == 0


def test_producer_that_was_silent_longest_goes_when_there_are_too_many() -> None:
    states = ProducerStates()
    one = batch(0)
    for producer in range(PRODUCERS_MAX):
        states.append(one._replace(producer_id=producer))
    states.append(one._replace(producer_id=0, base_sequence=1))  # the oldest is heard again
    states.append(one._replace(producer_id=PRODUCERS_MAX))
    assert len(states) == PRODUCERS_MAX
    assert states.check(one._replace(producer_id=0, base_sequence=1)) is not None
    assert states.check(one._replace(producer_id=1)) is None  # gone
