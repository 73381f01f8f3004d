"""File names: exactly Kafka's segments and snapshots, and none of what lies beside them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.metadata_log.file_names import parse_segment_name, parse_snapshot_name, segment_name
from kwire.metadata_log.snapshot_id import SnapshotId


@given(st.integers(0, 10**19))
def test_segment_names_come_back(offset: int) -> None:
    assert parse_segment_name(segment_name(offset)) == offset


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_snapshot_names_come_back(offset: int, epoch: int) -> None:
    assert parse_snapshot_name(SnapshotId(offset, epoch).file_name) == (offset, epoch)


@pytest.mark.parametrize("suffix", [".deleted", ".tmp", ".cleaned", ".swap", ".part", "~", "\n"])
@pytest.mark.parametrize("name", [segment_name(167), SnapshotId(985, 3).file_name])
def test_leftovers_are_neither(name: str, suffix: str) -> None:
    assert parse_segment_name(name + suffix) is None
    assert parse_snapshot_name(name + suffix) is None


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000167.index",
        "00000000000000000167.timeindex",
        "00000000000000000167.snapshot",
        "0167.log",
        "bootstrap.checkpoint",
        "recovery-point-offset-checkpoint",
        "00000000000000000985-3.checkpoint",
        "٠٠000000000000000167.log",
        "quorum-state",
    ],
)
def test_other_files_are_neither(name: str) -> None:
    assert parse_segment_name(name) is None
    assert parse_snapshot_name(name) is None
