"""The files of a partition say in which session of its producer a record was sent."""

from __future__ import annotations

from pathlib import Path

from kwire.records import Record, encode_batch
from tools.broker_kills.judge import Kept, Numbered, Session
from tools.broker_kills.reading import numbered


def batch(base: int, *values: bytes, epoch: int) -> bytes:
    """A batch of producer 7."""
    records = [Record(offset=base + at, timestamp=5, value=one) for at, one in enumerate(values)]
    return encode_batch(records, producer_id=7, producer_epoch=epoch, base_sequence=0)


def test_records_have_the_session_of_their_batches_in_every_segment(tmp_path: Path) -> None:
    first, second = batch(0, b"1", b"5", epoch=0), batch(2, b"5", epoch=1)
    (tmp_path / f"{0:020d}.log").write_bytes(first + second)
    (tmp_path / f"{3:020d}.log").write_bytes(batch(3, b"9", b"13", epoch=1))
    kept = [Kept(at, None, value) for at, value in enumerate(["1", "5", "5", "9", "13"])]
    assert numbered(kept, tmp_path) == [
        Numbered(0, 1, Session(7, 0)),
        Numbered(1, 5, Session(7, 0)),
        Numbered(2, 5, Session(7, 1)),
        Numbered(3, 9, Session(7, 1)),
        Numbered(4, 13, Session(7, 1)),
    ]
