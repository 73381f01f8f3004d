"""The file of aborted transactions: what a reader finds in it, and when it is not to be trusted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gateway.log.files.disk import Disk
from gateway.log.segments.transaction_index import (
    AbortedTxn,
    TransactionIndex,
    encode_index,
    read_index,
)


def transactions(count: int, seed: int = 1) -> list[AbortedTxn]:
    """Transactions that overlap, in the order of their markers."""
    rand, offset = random.Random(seed), 100
    found: list[AbortedTxn] = []
    opened: dict[int, int] = {}
    while len(found) < count:
        offset += rand.randint(1, 3)
        producer = rand.randrange(5)
        if producer in opened:
            first = opened.pop(producer)
            unstable = min(opened.values(), default=offset + 1)
            found.append(AbortedTxn(producer, first, offset, unstable))
        else:
            opened[producer] = offset
    return found


@pytest.mark.parametrize("count", [0, 1, 7, 700])
def test_a_reader_finds_every_transaction_that_has_records_in_its_range(
    count: int, tmp_path: Path
) -> None:
    index, disk, made = TransactionIndex(tmp_path / "x.txnindex"), Disk(), transactions(count)
    for one in made:
        index.append(disk, one)
    index.seal(disk)
    rand = random.Random(2)
    ends = [one.last_offset for one in made] or [100]
    for _ in range(50):
        start = rand.randint(90, ends[-1] + 5)
        end = start + rand.choice([1, 10, 100])
        found, is_whole = index.collect(start, end)
        needed = [one for one in made if one.last_offset >= start and one.first_offset < end]
        assert set(found) <= set(needed)
        left = set(needed) - set(found)
        # Behind the last one that it looked at, the log below the end was stable already.
        assert not left or is_whole
        assert all(one.first_offset >= end or one not in left for one in made)
    assert read_index(tmp_path / "x.txnindex", 100) == made


def test_a_file_that_contradicts_its_segment_is_of_no_use(tmp_path: Path) -> None:
    path, made = tmp_path / "x.txnindex", transactions(5)
    assert read_index(path, 0) == []
    data = encode_index(made)
    path.write_bytes(data[:-1])
    assert read_index(path, 0) is None
    path.write_bytes(encode_index([made[1], made[0]]))
    assert read_index(path, 0) is None
    path.write_bytes(data)
    assert read_index(path, made[0].last_offset + 1) is None
    assert read_index(path, made[0].last_offset) == made
