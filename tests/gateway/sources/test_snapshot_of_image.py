"""Snapshots of the image that is served are those of the log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.sources.metadata_loader import MetadataLoader
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.sources.metadata_files import batch, topic, values_batch, write_segment
from tests.gateway.sources.test_snapshot_generator import LEVEL, own, snapshots_of
from tests.shared import LOG_NAMES, needs_shared


def loaded(directory: Path, end: int) -> MetadataLoader:
    loader = MetadataLoader(directory)
    while loader.decode_step(end):
        loader.apply_step()
    loader.apply_step()
    return loader


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_a_snapshot_of_the_image_is_that_of_the_log(name: str, logs: Any, tmp_path: Path) -> None:
    source = sorted(logs(name).glob("nodes/*/__cluster_metadata-0"))[-1]
    truth = next(
        (source.parent.parent.parent / "truth" / source.parent.name).glob("state-END.jsonl")
    )
    end = json.loads(truth.open(encoding="utf-8").readline())["nextOffset"]
    state = loaded(source, end).capture()
    assert state is not None and state.position.next_offset == end
    if name == "p-abort":
        return  # its bootstrap was aborted
    written = []
    for directory, given in ((tmp_path / "log", None), (tmp_path / "image", state)):
        shutil.copytree(source, directory)
        made = own(directory).write(end, 0, 0.0, given)
        assert made is not None
        written.append((made, (directory / made.snapshot_id.file_name).read_bytes()))
    assert written[0] == written[1]


def test_later_records_do_not_change_a_captured_image(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, LEVEL, topic(1)), batch(2, topic(2)))
    loader = loaded(tmp_path, 2)
    state = loader.capture()
    loader.decode_step(3)
    loader.apply_step()
    assert state is not None and len(loader.image.topics) == 2
    snapshots = own(tmp_path)
    first = snapshots.write(3, 0, 0.0, state)
    assert first is not None and (first.snapshot_id, first.records) == (SnapshotId(2, 1), 2)
    # Nothing is behind the newest snapshot: the log decides, which has more.
    second = snapshots.write(3, 0, 0.0, state)
    assert second is not None and second.snapshot_id == SnapshotId(3, 1)


def test_no_image_is_captured_inside_a_transaction_or_without_all_records(tmp_path: Path) -> None:
    assert MetadataLoader(tmp_path).capture() is None
    begin = BeginTransactionRecord()
    write_segment(tmp_path, 0, batch(0, LEVEL), batch(1, topic(1), begin))
    assert loaded(tmp_path, 3).capture() is None
    assert loaded(tmp_path, 1).capture() is not None
    (tmp_path / "other").mkdir()
    write_segment(tmp_path / "other", 0, batch(0, LEVEL), values_batch(1, b"\x01\x70\x00\x00"))
    assert loaded(tmp_path / "other", 2).capture() is None


def test_a_cancelled_snapshot_of_the_image_leaves_nothing(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, batch(0, LEVEL, topic(1)))
    snapshots = own(tmp_path)
    snapshots.cancel()
    assert snapshots.write(2, 0, 0.0, loaded(tmp_path, 2).capture()) is None
    assert snapshots.problem == "the server stops" and not snapshots_of(tmp_path)
