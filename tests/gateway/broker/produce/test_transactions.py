"""The transactions of producers on a partition: where they begin, which marker ends them, and what
may be appended.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.produce.marker import Marker, marker_batch, read_marker
from gateway.broker.produce.producer_snapshot import decode_snapshot, encode_snapshot
from gateway.broker.produce.producer_state import PRODUCERS_MAX, ProducerStates
from gateway.broker.produce.refusal import BatchRefused
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode
from kwire.records import BatchHeader, read_header
from tests.gateway.broker.produce.batches import produced

COMMIT, ABORT = Marker(True, 3), Marker(False, 3)


def batch(
    offset: int, sequence: int, *, producer: int = 7, epoch: int = 0, **more: Any
) -> BatchHeader:
    more = {"is_transactional": True, "base_sequence": sequence, **more}
    data = produced(b"v", producer_id=producer, producer_epoch=epoch, **more)
    return read_header(data)._replace(base_offset=offset)


def end(
    states: ProducerStates, offset: int, marker: Marker, *, producer: int = 7, epoch: int = 0
) -> Any:
    header = marker_batch(producer, epoch, marker, 5000).header._replace(base_offset=offset)
    return states.append(header, marker)


def refusal(states: ProducerStates, header: BatchHeader, verification: Any = None) -> ErrorCode:
    with pytest.raises(BatchRefused) as refused:
        states.check(header, verification)
    return refused.value.error


def marker_refusal(states: ProducerStates, epoch: int, marker: Marker, version: int) -> ErrorCode:
    with pytest.raises(BatchRefused) as refused:
        states.check_marker(marker_batch(7, epoch, marker, 5000).header, marker, version)
    return refused.value.error


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker() -> None:
    states = ProducerStates()
    assert states.first_unstable_offset is None
    states.append(batch(10, 0))
    states.append(batch(11, 0, producer=8))
    states.append(batch(12, 1))
    assert states.first_unstable_offset == 10
    assert end(states, 13, ABORT) == (7, 10, 13, 11, True)
    assert states.first_unstable_offset == 11
    assert end(states, 14, COMMIT, producer=8) == (8, 11, 14, 15, False)
    assert states.first_unstable_offset is None
    assert end(states, 15, COMMIT) is None, "nothing was open"


def test_a_marker_that_was_read_is_the_one_that_was_written() -> None:
    for marker in (COMMIT, ABORT):
        made = marker_batch(7, 2, marker, 5000)
        assert made.header.is_control and made.header.is_transactional
        assert (made.header.producer_id, made.header.producer_epoch) == (7, 2)
        data = b"before" + bytes(made.data)
        assert read_marker(read_header(data, 6), data) == marker
    other = produced(b"no marker", producer_id=7, producer_epoch=0, base_sequence=0)
    assert read_marker(read_header(other), other) is None


def test_the_first_batch_of_a_transaction_needs_the_word_of_the_coordinator() -> None:
    states = ProducerStates()
    first = batch(10, 0)
    assert refusal(states, first) is ErrorCode.INVALID_TXN_STATE
    asked = states.begin_verification(first)
    assert asked is not None and asked is states.begin_verification(first)
    assert states.check(first, asked) is None
    states.append(first)
    assert states.begin_verification(batch(11, 1)) is None, "the transaction is open here"
    assert states.check(batch(11, 1)) is None


def test_the_first_batch_of_the_next_transaction_asks_though_the_marker_is_not_written() -> None:
    states = ProducerStates()
    states.append(batch(10, 0, epoch=5))
    next_one = batch(11, 0, epoch=6)
    asked = states.begin_verification(next_one)
    assert asked is not None, "the open transaction is that of the epoch before"
    assert refusal(states, next_one) is ErrorCode.INVALID_TXN_STATE
    states.check_marker(marker_batch(7, 6, COMMIT, 5000).header, COMMIT, 2)
    end(states, 11, COMMIT, epoch=6)
    asked = states.begin_verification(next_one)
    assert states.check(next_one, asked) is None


def test_a_batch_of_a_replaced_producer_is_refused_for_its_epoch_not_for_its_transaction() -> None:
    states = ProducerStates()
    states.append(batch(10, 0, epoch=6))
    assert refusal(states, batch(11, 1, epoch=5)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_makes_an_older_word_of_the_coordinator_void() -> None:
    states = ProducerStates()
    asked = states.begin_verification(batch(10, 0))
    end(states, 10, ABORT)
    assert refusal(states, batch(11, 0), asked) is ErrorCode.INVALID_TXN_STATE


def test_a_batch_behind_the_first_one_that_was_asked_for_is_out_of_order() -> None:
    states = ProducerStates()
    states.begin_verification(batch(0, 4))
    asked = states.begin_verification(batch(0, 5))
    assert refusal(states, batch(0, 5), asked) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(0, 4), asked) is None


def test_a_marker_leaves_the_word_for_the_transaction_behind_where_each_has_an_epoch() -> None:
    for bumps_epoch, epoch, is_left in ((True, 1, True), (True, 2, False), (False, 1, False)):
        states = ProducerStates()
        states.append(batch(10, 0))
        asked = states.begin_verification(batch(12, 0, epoch=1), bumps_epoch=bumps_epoch)
        end(states, 11, COMMIT, epoch=epoch)
        next_one = batch(12, 0, epoch=epoch)
        if is_left:
            assert states.check(next_one, asked) is None
        else:
            assert refusal(states, next_one, asked) is ErrorCode.INVALID_TXN_STATE


def test_a_producer_without_batches_begins_with_0_where_each_transaction_has_an_epoch() -> None:
    states = ProducerStates()
    for epoch in range(2):
        asked = states.begin_verification(batch(0, 3, epoch=epoch), bumps_epoch=True)
        refused = refusal(states, batch(0, 3, epoch=epoch), asked)
        assert refused is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        asked = states.begin_verification(batch(0, 0, epoch=epoch), bumps_epoch=True)
        states.check(batch(0, 0, epoch=epoch), asked)
        states.append(batch(10 + 2 * epoch, 0, epoch=epoch))
        end(states, 11 + 2 * epoch, COMMIT, epoch=epoch + 1)
    older = ProducerStates()
    asked = older.begin_verification(batch(0, 3))
    assert older.check(batch(0, 3), asked) is None


def test_a_batch_of_an_ended_transaction_that_comes_late_does_not_stop_the_next_one() -> None:
    states = ProducerStates()
    states.append(batch(10, 0))
    end(states, 11, COMMIT, epoch=1)
    states.append(batch(12, 0, epoch=1))
    asked = states.begin_verification(batch(0, 0))
    assert refusal(states, batch(0, 0), asked) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.begin_verification(batch(13, 1, epoch=1)) is None
    assert states.check(batch(13, 1, epoch=1)) is None
    assert refusal(states, batch(13, 2, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_coordinator_of_this_node_writes_without_sequences_and_verification() -> None:
    states = ProducerStates()
    own = batch(3, -1)
    assert states.check(own) is None
    states.append(own)
    assert states.check(own) is None, "it comes twice because it was written twice"
    assert states.first_unstable_offset == 3


def test_a_producer_with_an_open_transaction_writes_nothing_outside_of_it() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    outside = batch(1, 1, is_transactional=False)
    assert refusal(states, outside) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_an_older_producer_or_coordinator_is_refused() -> None:
    states = ProducerStates()
    states.append(batch(0, 0, epoch=5))
    end(states, 1, COMMIT, epoch=5)
    assert marker_refusal(states, 4, COMMIT, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    zombie = Marker(True, 2)
    assert marker_refusal(states, 5, zombie, 0) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    states.check_marker(marker_batch(7, 5, COMMIT, 5000).header, COMMIT, 0)


def test_a_marker_of_transaction_version_2_has_an_epoch_of_its_own() -> None:
    states = ProducerStates()
    states.append(batch(0, 0, epoch=5))
    assert marker_refusal(states, 5, COMMIT, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    states.check_marker(marker_batch(7, 6, COMMIT, 5000).header, COMMIT, 2)
    end(states, 1, COMMIT, epoch=6)
    # The coordinator asks again if it heard nothing.
    states.check_marker(marker_batch(7, 6, COMMIT, 5000).header, COMMIT, 2)
    states.append(batch(2, 0, epoch=32767))
    states.check_marker(marker_batch(7, 32767, COMMIT, 5000).header, COMMIT, 2)


def test_an_epoch_that_came_with_a_marker_begins_with_sequence_0() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    end(states, 1, COMMIT, epoch=1)
    outside = batch(2, 1, epoch=1, is_transactional=False)
    assert refusal(states, outside) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(batch(2, 0, epoch=1, is_transactional=False)) is None


def test_a_silent_producer_is_forgotten_unless_its_transaction_is_open() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    states.append(batch(1, 0, producer=8, is_transactional=False))
    newest = batch(1, 0).max_timestamp
    states.remove_expired(newest + 99, 100)
    assert len(states) == 2
    states.remove_expired(newest + 100, 100)
    assert [one.producer_id for one in states.all()] == [7]


def test_many_producers_neither_grow_without_bound_nor_push_a_transaction_out() -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    header = batch(1, 0, is_transactional=False)
    for producer in range(100, 100 + PRODUCERS_MAX + 5):
        states.append(header._replace(producer_id=producer))
    assert len(states) == PRODUCERS_MAX + 1 and states.first_unstable_offset == 0


def test_more_transactions_than_the_limit_are_refused() -> None:
    states = ProducerStates()
    header = batch(1, 0)
    for producer in range(PRODUCERS_MAX):
        states.append(header._replace(producer_id=producer))
    one_more = header._replace(producer_id=PRODUCERS_MAX)
    asked = states.begin_verification(one_more)
    assert refusal(states, one_more, asked) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert states.check(batch(1, 1, producer=4)) is None


def test_a_snapshot_has_the_newest_batches_of_each_producer_and_its_transaction() -> None:
    states = ProducerStates()
    states.append(batch(0, 2**31 - 1, producer=1, is_transactional=False))
    states.append(batch(1, 0, producer=2))
    states.append(batch(2, 1, producer=2))
    end(states, 3, COMMIT, producer=3, epoch=4)
    again = ProducerStates(decode_snapshot(encode_snapshot(states.all())))
    assert again.all() == states.all()
    assert max(len(one.batches) for one in again.all()) == 2
    assert again.first_unstable_offset == 1


@pytest.mark.parametrize("at", range(0, 80, 3))
def test_a_damaged_snapshot_is_found_out(at: int) -> None:
    states = ProducerStates()
    states.append(batch(0, 0))
    states.append(batch(1, 0, producer=8))
    data = bytearray(encode_snapshot(states.all()))
    data[at] ^= 0x40
    with pytest.raises(DecodeError):
        decode_snapshot(bytes(data))
    with pytest.raises(DecodeError):
        decode_snapshot(bytes(data[:at]))
