"""The note of a clean shutdown: written once, taken once, and of no use if it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.log.files.clean_shutdown import (
    FILE_NAME,
    UNKNOWN_EPOCH,
    take_clean_shutdown,
    write_clean_shutdown,
)
from gateway.log.files.disk import Disk

DISK = Disk(fsync=False)


def test_note_is_that_of_kafka_and_is_taken_once(tmp_path: Path) -> None:
    write_clean_shutdown(tmp_path, DISK, 42)
    assert (tmp_path / FILE_NAME).read_bytes() == b'{"version":0,"brokerEpoch":42}'
    assert take_clean_shutdown(tmp_path, DISK) == 42
    assert take_clean_shutdown(tmp_path, DISK) == UNKNOWN_EPOCH


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"null", b"{}", b'{"brokerEpoch":"x"}', b"\xff", b"{" * 9000],
)
def test_note_that_cannot_be_read_is_taken_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert take_clean_shutdown(tmp_path, DISK) == UNKNOWN_EPOCH
    assert not (tmp_path / FILE_NAME).exists()
