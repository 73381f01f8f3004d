"""The fold of a coordinator's log: the newest record of each key, and transactions that wait for
their markers.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.coordinator_replay import Replay
from kwire.errors import DecodeError
from kwire.records import Record, decode_batch, encode_batch

#: Each batch has offsets above all before it.
_OFFSETS: Final = itertools.count(0, 100)


def apply(replay: Replay, *records: tuple[bytes | None, bytes | None], **batch: Any) -> None:
    first = next(_OFFSETS)
    data = encode_batch(
        [
            Record(offset=at, timestamp=at, key=key, value=value)
            for at, (key, value) in enumerate(records, first)
        ],
        base_offset=first,
        last_offset=first + max(len(records) - 1, 0),
        **batch,
    )
    decoded = decode_batch(data)
    replay.apply(decoded.header, decoded.records)


def mark(replay: Replay, producer_id: int, kind: int) -> None:
    key = b"\0\0" + kind.to_bytes(2, "big")
    apply(
        replay,
        (key, b"\0\0\0\0\0\0"),
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def values(replay: Replay) -> dict[bytes, bytes | None]:
    return {key: record.value for key, record in replay.records.items()}


def in_transaction(
    replay: Replay, producer_id: int, *records: tuple[bytes | None, bytes | None]
) -> None:
    apply(replay, *records, producer_id=producer_id, producer_epoch=0, is_transactional=True)


def test_newest_record_of_a_key_counts_and_a_tombstone_deletes_it() -> None:
    replay = Replay()
    apply(replay, (b"a", b"1"), (b"b", b"1"), (None, b"?"))
    apply(replay, (b"a", b"2"), (b"b", None))
    assert values(replay) == {b"a": b"2"}


def test_records_of_a_transaction_count_when_it_commits() -> None:
    replay = Replay()
    apply(replay, (b"a", b"1"), (b"b", b"1"))
    in_transaction(replay, 7, (b"a", b"2"), (b"b", None))
    assert values(replay) == {b"a": b"1", b"b": b"1"}
    assert replay.pending[7].epoch == 0
    mark(replay, 7, 1)
    assert values(replay) == {b"a": b"2"}
    assert not replay.pending


def test_records_of_a_transaction_that_aborts_are_dropped() -> None:
    replay = Replay()
    in_transaction(replay, 7, (b"a", b"2"))
    in_transaction(replay, 8, (b"a", b"3"))
    mark(replay, 7, 0)
    assert not replay.records and list(replay.pending) == [8]


def test_record_of_a_transaction_that_is_older_than_what_counts_is_dropped() -> None:
    replay = Replay()
    in_transaction(replay, 7, (b"a", b"1"), (b"b", b"1"))
    in_transaction(replay, 8, (b"b", b"2"))
    apply(replay, (b"a", b"9"))
    mark(replay, 8, 1)
    mark(replay, 7, 1)
    assert values(replay) == {b"a": b"9", b"b": b"2"}


def test_deleted_record_does_not_come_back_with_an_older_transaction() -> None:
    replay = Replay()
    in_transaction(replay, 7, (b"a", b"1"))
    apply(replay, (b"a", None))
    mark(replay, 7, 1)
    assert not replay.records


def test_batch_that_compaction_has_emptied_begins_no_transaction() -> None:
    replay = Replay()
    in_transaction(replay, 7)
    assert not replay.pending


def test_marker_of_another_kind_ends_no_transaction() -> None:
    replay = Replay()
    in_transaction(replay, 7, (b"a", b"2"))
    mark(replay, 7, 9)
    assert list(replay.pending) == [7]


def test_marker_without_a_type_is_refused() -> None:
    with pytest.raises(DecodeError):
        apply(Replay(), (b"\0", b""), is_control=True, producer_id=1)


_KEYS = st.sampled_from([b"a", b"b", b"c"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _KEYS, st.one_of(st.none(), st.binary(max_size=2))),
        st.tuples(st.sampled_from(["1", "2"]), _KEYS, st.one_of(st.none(), st.binary(max_size=2))),
        st.tuples(st.just("mark"), st.sampled_from([1, 2]), st.sampled_from([0, 1])),
    )
)


@given(_STEPS)
def test_fold_equals_a_model_that_keeps_lists(steps: list[tuple[Any, Any, Any]]) -> None:
    replay = Replay()
    model: dict[bytes, bytes] = {}
    newest: dict[bytes, int] = {}  # the step whose value of a key counts, or deleted it
    pending: dict[int, list[tuple[int, bytes, bytes | None]]] = {}

    def put(number: int, key: bytes, value: bytes | None) -> None:
        if number < newest.get(key, -1):
            return
        newest[key] = number
        model.pop(key, None)
        if value is not None:
            model[key] = value
        elif number == at:  # outside of a transaction
            for some in pending.values():
                some[:] = [one for one in some if one[1] != key]

    for at, (what, first, second) in enumerate(steps):
        if what == "put":
            apply(replay, (first, second))
            put(at, first, second)
        elif what == "mark":
            mark(replay, first, second)
            # Of one key the newest record of the transaction counts.
            written = {key: (number, value) for number, key, value in pending.pop(first, [])}
            for key, (number, value) in written.items() if second else ():
                put(number, key, value)
        else:
            in_transaction(replay, int(what), (first, second))
            pending.setdefault(int(what), []).append((at, first, second))
    assert values(replay) == model
    assert replay.pending.keys() == pending.keys()
