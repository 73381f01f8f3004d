from __future__ import annotations

from pathlib import Path

import pytest

from gateway.log.offset_checkpoint import format_offsets, parse_offsets, read_offsets
from kwire.errors import DecodeError


def test_the_file_is_kafkas() -> None:
    data = b"0\n2\n__cluster_metadata 0 4711\norders 12 0\n"
    offsets = {("__cluster_metadata", 0): 4711, ("orders", 12): 0}
    assert parse_offsets(data) == offsets
    assert format_offsets(offsets) == data
    assert format_offsets({}) == b"0\n0\n"
    assert parse_offsets(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"0\n", b"1\n0\n", b"0\n1\n", b"0\n0\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 1 2\n", b"0\n1\na 0 -1\n",
        b"0\n1\na x 1\n",
        b"0\n2\na 0 1\na 0 2\n", b"\0" * 40, b"0\n1\n" + b"a 0 1" * 300_000,
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_file(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DecodeError) as caught:
        read_offsets(tmp_path / "file")
    assert caught.value.path == str(tmp_path / "file")
