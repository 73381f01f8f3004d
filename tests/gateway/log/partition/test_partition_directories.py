"""Directories of partitions: found by topic id, set aside under Kafka's names, removed."""

from __future__ import annotations

from pathlib import Path

from gateway.log.files.disk import Disk
from gateway.log.files.partition_metadata import FILE_NAME, format_topic_id
from gateway.log.partition.partition_directories import (
    directory_name,
    partition_directories,
    remove_deleted,
    remove_directory,
    set_aside,
)
from kwire.uuid import METADATA_TOPIC_ID, Uuid

DISK = Disk(fsync=False)
TOPIC_ID, OTHER_ID = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))
UNIQUE = "0123456789abcdef0123456789abcdef"


def make(data_dir: Path, name: str, topic_id: Uuid | None = TOPIC_ID) -> Path:
    path = data_dir / name
    path.mkdir()
    if topic_id is not None:
        (path / FILE_NAME).write_bytes(format_topic_id(topic_id))
    return path


def test_partitions_of_created_topics_are_found(tmp_path: Path) -> None:
    made = make(tmp_path, directory_name("a-b", 12))
    make(tmp_path, "__cluster_metadata-0", METADATA_TOPIC_ID)
    audit = make(tmp_path, "__cluster_metadata_audit-0", OTHER_ID)
    make(tmp_path, "__cluster_metadata_audit~local-0", None)
    make(tmp_path, "without.id-0", None)
    make(tmp_path, "no-number")
    make(tmp_path, f"a-1.{UNIQUE}-stray")
    make(tmp_path, f"a-1.{UNIQUE}-delete")
    broken = make(tmp_path, "broken-0", None)
    (broken / FILE_NAME).write_bytes(b"version: 0\ntopic_id: what")
    (tmp_path / "file-0").write_bytes(b"")
    assert partition_directories(tmp_path) == {(TOPIC_ID, 12): made, (OTHER_ID, 0): audit}


def test_directory_is_set_aside_with_its_files(tmp_path: Path) -> None:
    path = make(tmp_path, "t-0")
    new = set_aside(path, DISK, UNIQUE, "stray")
    assert new == tmp_path / f"t-0.{UNIQUE}-stray" and (new / FILE_NAME).exists()
    assert not path.exists()


def test_name_that_is_set_aside_is_not_longer_than_a_file_system_takes(tmp_path: Path) -> None:
    path = make(tmp_path, directory_name("t" * 249, 0))
    new = set_aside(path, DISK, UNIQUE, "delete")
    assert len(new.name) == 255 and new.name.endswith(f".{UNIQUE}-delete")


def test_what_a_crash_left_of_a_deletion_is_removed_and_nothing_else(tmp_path: Path) -> None:
    make(tmp_path, f"t-0.{UNIQUE}-delete")
    kept = [
        make(tmp_path, name) for name in ("t-0", f"t-1.{UNIQUE}-stray", "t-delete", "x-1-delete")
    ]
    remove_deleted(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    remove_directory(kept[0])
    assert not kept[0].exists()
