"""An observed log on disks that are full, broken or out of file descriptors: nothing that was shown
changes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.files.errors import DiskFailed, LogFailed, SyncFailed
from gateway.quorum.effects import Advance, BeginSnapshot
from gateway.sources.quorum_log import QuorumLog
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.sources.observing import (
    appended,
    do,
    edge,
    fill,
    on,
    perform,
    persisted,
    reopened,
)
from tests.gateway.sources.reading import batches_from


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def source(root: Path) -> Iterator[QuorumLog]:
    """One that has been where the leader was."""
    opened = reopened(root)
    opened.caught_up = True
    yield opened
    opened.close()


def test_a_full_disk_is_tried_again_wherever_it_was_full(root: Path) -> None:
    """Every single operation of an answer: afterwards the same effects, given again, lead where
    they should.
    """
    count = 0
    for fails_at in range(40):
        disk = FaultyDisk()
        source = on(root / str(fails_at), disk)
        fill(source, 1)
        effects = (persisted(2, 1), appended(source, 2, epoch=2), Advance(4))
        disk.fails_at = disk.count + fails_at
        try:
            perform(source, effects)
        except SyncFailed:
            with pytest.raises(LogFailed):
                perform(source, effects)
        except DiskFailed:
            source.publish()
            assert source.high_watermark == 2
            ends = source.store.end_offset
            assert perform(source, effects if ends == 2 else (persisted(2, 1), Advance(4))) is None
            assert source.store.end_offset == 4
        else:
            count += 1
        disk.fails_at = -1
        source.publish()
        assert source.high_watermark in (2, 4)
        shown = batches_from(source, 0)
        source.close()
        again = reopened(root / str(fails_at))
        assert batches_from(again, 0)[: len(shown)] == shown
        assert again.high_watermark >= source.high_watermark
        again.close()
        if count:
            break
    assert fails_at > 8, "an answer takes several operations"
    assert count


def test_a_failed_sync_shows_nothing_and_ends_it(root: Path) -> None:
    disk = FaultyDisk(error=errno.EIO)
    source = on(root, disk)
    fill(source, 1)
    disk.fails_at = disk.count + next(
        at for at, name in enumerate(_operations(root / "x")) if name.startswith("sync ")
    )
    with pytest.raises(SyncFailed, match="cannot sync"):
        do(source, appended(source), Advance(4))
    source.publish()
    assert edge(source) == (0, 2)
    with pytest.raises(LogFailed):
        do(source, Advance(4))
    source.close()


def _operations(root: Path) -> list[str]:
    """Return the disk operations of a response with a committed batch."""
    disk = FaultyDisk()
    source = on(root, disk)
    fill(source, 1)
    before = disk.count
    do(source, appended(source), Advance(4))
    source.close()
    return disk.log[before:]


def test_closing_frees_the_directory_whatever_the_disk_says(root: Path) -> None:
    disk = FaultyDisk()
    source = on(root, disk)
    do(source, BeginSnapshot(SnapshotId(100, 4)))
    disk.fails_at, disk.for_good = disk.count, True
    with pytest.raises(DiskFailed):
        source.close()
    reopened(root).close()


def test_a_file_that_cannot_be_opened_leaves_the_served_log_unchanged(
    source: QuorumLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(source, 10)
    before = batches_from(source, 0)

    def refuse(path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr("gateway.log.segments.segment.OpenFile", refuse)
    for _ in range(10):
        assert do(source, appended(source, 2), Advance(source.store.end_offset + 2)) is None
    shown = batches_from(source, 0)
    assert shown[: len(before)] == before
    assert source.high_watermark < source.committed == 40, (
        "the segments begun meanwhile cannot be seen"
    )
    assert "Too many open files" in str(source.problems[0])
    monkeypatch.undo()
    do(source)
    assert source.high_watermark == source.committed == 40
    assert batches_from(source, 0)[: len(shown)] == shown
    assert source.problems == ()
