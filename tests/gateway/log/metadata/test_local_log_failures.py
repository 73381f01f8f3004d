"""A disk that is full or broken, at every single operation: an error that says which file, and a
log that knows what it holds.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from gateway.log.files.errors import DiskFailed, LogError, LogFailed, SyncFailed
from gateway.log.metadata.local_log import LocalLog
from tests.gateway.log.crash_disk import QuietDisk
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.promises import agrees_with_itself, keeps
from tests.gateway.log.workload import SMALL, Promise, Workload

#: Of the operations of a whole life, each of these is the one that fails.
_EVERY = 3


@pytest.mark.parametrize(
    ("error", "for_good", "first"), [(errno.ENOSPC, False, 0), (errno.EIO, True, 1)]
)
def test_any_operation_may_fail(error: int, for_good: bool, first: int, root: Path) -> None:
    (root / f"whole {error}").mkdir()
    whole = FaultyDisk()
    workload = Workload(root / f"whole {error}", whole, lambda promise: None)
    workload.run()
    workload.log.close()
    written = workload.written
    for number in range(first, whole.count, _EVERY):
        disk = FaultyDisk(number, error, for_good=for_good)
        _fails_once(root / "faulty", disk, written)
        shutil.rmtree(root / "faulty")


def _fails_once(root: Path, disk: FaultyDisk, written: dict[tuple[int, int], bytes]) -> None:
    root.mkdir()
    promises = [Promise()]
    workload = None
    with pytest.raises(LogError) as caught:
        workload = Workload(root, disk, promises.append)
        workload.run()
        workload.log.close()
    failure = caught.value
    assert isinstance(failure, DiskFailed)
    assert failure.file in str(failure)
    assert str(root) in failure.file
    if workload:
        with _no_matter_what():
            workload.log.close()
    log = LocalLog.open(root, SMALL, disk=QuietDisk())
    try:
        keeps(log, promises[-1], written)
        agrees_with_itself(log)
        log.append(batch(log.end_offset, 1, log.last_epoch + 1).data)
    finally:
        log.close()


def test_a_full_disk_leaves_the_log_as_it_was_and_it_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk()
    log = LocalLog.open(tmp_path, SMALL, disk=disk)
    one, two, three = batch(0, 2, 1), batch(2, 1, 2), batch(3, 1, 2)
    log.append(one.data)
    for operation in range(
        6
    ):  # of: epochs opened, cut, written, synced; renamed, directory synced; log written
        disk.fails_at = disk.count + operation
        try:
            log.append(two.data + three.data)
        except SyncFailed:
            break
        except DiskFailed as error:
            assert error.errno == errno.ENOSPC
            assert "No space left on device; make room on that file system" in str(error)
        else:
            break
        assert (log.end_offset, log.last_epoch) == (2, 1)
        assert (log.directory / "00000000000000000000.log").read_bytes() == one.data
    else:
        pytest.fail("nothing was ever written")


def test_a_write_in_half_is_taken_back(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = LocalLog.open(tmp_path, SMALL, disk=disk)
    log.append(batch(0, 2).data)
    disk.fails_at = disk.count
    with pytest.raises(
        DiskFailed, match=r"cannot write .*00000000000000000000\.log: No space left"
    ):
        log.append(batch(2, 3).data)
    assert log.append(batch(2, 1).data) == 3
    log.flush()
    log.set_high_watermark(3)
    assert (log.directory / "00000000000000000000.log").read_bytes() == batch(0, 2).data + batch(
        2, 1
    ).data
    log.close()


def test_after_a_failed_sync_nothing_goes_on_and_what_is_in_doubt_is_gone(tmp_path: Path) -> None:
    disk = FaultyDisk(error=errno.EIO)
    log = LocalLog.open(tmp_path, SMALL, disk=disk)
    log.append(batch(0, 2).data)
    log.flush()
    log.append(batch(2, 1).data)
    disk.fails_at = disk.count
    with pytest.raises(SyncFailed, match="Input/output error; the disk fails"):
        log.flush()
    for change in (
        log.flush,
        lambda: log.append(batch(3, 1).data),
        lambda: log.set_high_watermark(3),
    ):
        with pytest.raises(LogFailed, match="close it and open it again"):
            change()
    log.close()
    log = LocalLog.open(tmp_path, SMALL)
    assert log.end_offset == 2, (
        "pages that were not synced may be marked clean: they are fetched again"
    )
    log.close()


def test_a_high_watermark_that_cannot_be_written_is_not_claimed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = LocalLog.open(tmp_path, SMALL, disk=disk)
    log.append(batch(0, 2).data)
    log.set_high_watermark(1)
    disk.fails_at = disk.count
    with pytest.raises(DiskFailed, match=r"cannot write .*high-watermark"):
        log.set_high_watermark(2)
    assert log.high_watermark == 1
    log.set_high_watermark(2)
    assert log.high_watermark == 2
    log.close()


class _no_matter_what:
    """Closing a log on a broken disk may fail too."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return error is None or isinstance(error, LogError)
