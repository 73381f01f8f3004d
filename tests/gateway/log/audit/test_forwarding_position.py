"""The file ``forwarded``: what is written is read, and any bytes raise DecodeError at most."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from gateway.log.audit.forwarding_position import (
    FILE_NAME,
    ForwardingFile,
    ForwardingPosition,
    parse_position,
)
from gateway.log.files.disk import Disk
from kwire.errors import DecodeError
from kwire.uuid import Uuid

POSITION = ForwardingPosition(Uuid(bytes(range(16))), 5, 9, 1000, 0, (1 << 31) - 1)


def test_written_position_is_read_again(tmp_path: Path) -> None:
    file = ForwardingFile(tmp_path, Disk(fsync=False))
    assert file.read() is None
    for position in (ForwardingPosition.at(POSITION.topic_id, 3), POSITION):
        file.write(position)
        assert ForwardingFile(tmp_path, Disk(fsync=False)).read() == position


def test_sequence_number_begins_anew_behind_the_largest() -> None:
    assert POSITION.sent(2, 9) == POSITION._replace(offset=9, sequence=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic_id", None),
        ("topic_id", "short"),
        ("offset", -1),
        ("offset", 10),
        ("offset", True),
        ("end_offset", "9"),
        ("producer_id", -2),
        ("sequence", 1 << 31),
    ],
)
def test_wrong_member_is_refused(name: str, value: object, tmp_path: Path) -> None:
    ForwardingFile(tmp_path, Disk(fsync=False)).write(POSITION)
    values = json.loads((tmp_path / FILE_NAME).read_bytes())
    with pytest.raises(DecodeError):
        parse_position(json.dumps({**values, name: value}).encode())


def test_any_bytes_raise_decode_error_alone(tmp_path: Path) -> None:
    ForwardingFile(tmp_path, Disk(fsync=False)).write(POSITION)
    data = (tmp_path / FILE_NAME).read_bytes()
    refused = 0
    for at in range(len(data)):
        for changed in (
            data[:at],
            data[:at] + b"\xff" + data[at + 1 :],
            data[:at] + data[at + 1 :],
        ):
            try:
                parse_position(changed)
            except DecodeError:
                refused += 1
    assert refused > len(data)
    for data in (b"", b"[]", b"[" * 1000, b" " * 2000):
        with contextlib.suppress(DecodeError):
            raise AssertionError(parse_position(data))
