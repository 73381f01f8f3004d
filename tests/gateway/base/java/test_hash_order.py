"""Keys are in the order of Java's hash tables."""

from __future__ import annotations

from gateway.base.java.hash_order import (
    capacity_for,
    hash_order,
    members_in_order,
    partitions_in_order,
    string_hash,
    uuid_hash,
)
from kwire.uuid import Uuid


def test_hashes_are_those_of_java() -> None:
    assert string_hash("") == 0
    assert string_hash("abc") == 96354
    assert string_hash("polygenelubricants") == 2**31  # Integer.MIN_VALUE
    assert string_hash("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert uuid_hash(Uuid(bytes(7) + b"\2" + bytes(7) + b"\1")) == 3


def test_keys_of_a_bucket_stay_in_the_order_of_their_insertion() -> None:
    assert members_in_order(["q", "b", "a"]) == ["q", "a", "b"]  # q and a are in bucket 1
    assert members_in_order(["a", "b", "q"]) == ["a", "q", "b"]


def test_table_grows_when_it_is_three_quarters_full() -> None:
    assert hash_order([16, 1, *range(2, 12)], lambda one: one)[0] == 16
    assert hash_order([16, 1, *range(2, 13)], lambda one: one)[-1] == 16


def test_set_of_a_collection_has_room_for_all() -> None:
    assert [capacity_for(size) for size in (0, 11, 12, 24)] == [16, 16, 17, 33]
    assert partitions_in_order({16, 0, 1}) == [0, 16, 1]
