"""Whether a snapshot counts as whole."""

from pathlib import Path

import crc32c
import pytest

from gateway.log.metadata.snapshot import has_footer
from kwire.records.encode import encode_batch
from kwire.records.record import Record
from tests.gateway.log.kafka_files import batch, snapshot_bytes
from tests.gateway.log.segments.test_batch_index import indexed


def control(key: bytes | None, *, is_control: bool = True) -> bytes:
    return encode_batch(
        [Record(offset=1, timestamp=1, key=key, value=b"")],
        partition_leader_epoch=1,
        is_control=is_control,
    )


def undecodable() -> bytes:
    """A control batch with the right CRC around a record that claims another length."""
    data = bytearray(control(b"\0\0\0\4"))
    data[61] ^= 2
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (snapshot_bytes(3, (2, 5)), True),
        (snapshot_bytes(3, ()), True),
        (snapshot_bytes(3, (2, 5), footer=False), False),
        (b"", False),
        (batch(0).data + batch(1, size=9000).data, False),
        (batch(0).data + control(b"\0\0\0\4"), True),
        (batch(0).data + control(b"\0\0\0\4", is_control=False), False),
        (batch(0).data + control(b"\0\0\0\3"), False),
        (batch(0).data + control(b"\0\4"), False),
        (batch(0).data + control(None), False),
        (batch(0).data + undecodable(), False),
    ],
)
def test_a_whole_snapshot_ends_with_its_footer(tmp_path: Path, data: bytes, whole: bool) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(data)
    assert has_footer(indexed(path)) is whole
