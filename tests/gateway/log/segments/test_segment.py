"""A segment that is written: its index entries go to the files together."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.log.files.disk import Disk
from gateway.log.partition.loaded_log import LoadedLog
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.roll_policy import rolls_when_told
from gateway.log.partition.unified_log import UnifiedLog
from gateway.log.segments.batch_check import Tail, check_batches
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment import Segment
from gateway.log.segments.segment_index import OFFSET_ENTRY
from gateway.log.segments.segment_scan import scan_segment
from tests.gateway.log.kafka_files import batch

#: Each batch but the first has an offset entry.
_INTERVAL = 1
_WAITING = 4


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.log.segments.segment._WAITING_MAX", _WAITING)


def _segment(directory: Path) -> Segment:
    return Segment.create(Disk(fsync=False), directory, 0, _INTERVAL)


def _grow(segment: Segment, count: int) -> None:
    for _ in range(count):
        data = memoryview(batch(segment.end_offset, 1).data)
        checked = check_batches(data, Tail(segment.end_offset, 0))
        segment.append(data, checked.batches)


def _offsets(directory: Path) -> bytes:
    (path,) = directory.glob("*.index")
    return path.read_bytes()


def _is_of_batches(directory: Path) -> bool:
    """Whether the offset index has an entry for each batch that is to have one."""
    scan = scan_segment(directory, 0, _INTERVAL, 0)
    return _offsets(directory) == scan.index.offset_bytes() and scan.index.counts[0] > 0


def test_entries_are_written_together(tmp_path: Path) -> None:
    segment, written = _segment(tmp_path), []
    for _ in range(2 * _WAITING + 1):
        _grow(segment, 1)
        written.append(len(_offsets(tmp_path)) // OFFSET_ENTRY.size)
    assert written == [0, 0, 0, 0, 4, 4, 4, 4, 8]
    segment.close()
    assert _is_of_batches(tmp_path)


def test_sealed_segment_has_all_entries(tmp_path: Path) -> None:
    segment = _segment(tmp_path)
    _grow(segment, _WAITING + 2)
    assert not _is_of_batches(tmp_path)
    segment.seal()
    segment.close()
    assert _is_of_batches(tmp_path)


@pytest.mark.parametrize("left", [1, 2, 5, 6])
def test_cut_segment_has_the_entries_of_what_is_left(tmp_path: Path, left: int) -> None:
    segment = _segment(tmp_path)
    _grow(segment, _WAITING + 3)
    segment.truncate_to(left)
    assert scan_segment(tmp_path, 0, _INTERVAL, 0).tail.next_offset == left
    _grow(segment, 3)
    segment.seal()
    segment.close()
    assert _is_of_batches(tmp_path)


def test_flush_beside_appends_includes_the_entries_that_wait(tmp_path: Path) -> None:
    disk, settings = Disk(fsync=False), LogSettings(index_interval_bytes=_INTERVAL, fsync=False)
    loaded = LoadedLog([], _segment(tmp_path), EpochCache(), 0)
    log = UnifiedLog(tmp_path, disk, settings, loaded, rolls=rolls_when_told, problems=[])
    log.append(batch(0, 1).data + batch(1, 1).data + batch(2, 1).data)
    assert not _is_of_batches(tmp_path)
    log.pending_flush(suffixes=[".index"]).flush()
    assert _is_of_batches(tmp_path)
    log.close()
