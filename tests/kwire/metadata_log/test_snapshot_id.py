"""How a snapshot is named: as Kafka names its files."""

from __future__ import annotations

from kwire.metadata_log.snapshot_id import SnapshotId


def test_text_of_an_id_is_its_file_name_without_the_suffix() -> None:
    assert str(SnapshotId(985, 3)) == "00000000000000000985-0000000003"
    assert SnapshotId(985, 3).file_name == "00000000000000000985-0000000003.checkpoint"


def test_snapshot_ids_are_ordered_by_end_offset() -> None:
    assert max(SnapshotId(9, 2), SnapshotId(10, 1)) == (10, 1)
