"""The audit log writer: entries are written before changes are answered, many share one write, and
a failing disk loses entries but fails no change.
"""

from __future__ import annotations

import contextlib
import errno
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.log.audit import audit_log
from gateway.log.audit.audit_log import AUDIT_SETTINGS
from gateway.log.partition.log_settings import LogSettings
from gateway.ports.services import Requester
from gateway.server.controller import audit_log_writer as keep_audit
from gateway.server.controller.audit_log_writer import AuditLogWriter
from gateway.server.logging.logs import Reports
from gateway.sources.audit_partition import AuditPartition
from gateway.views.audit import Change
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.records import decode_batches
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.server.harness import run
from tests.gateway.sources.reading import batches_from
from tests.waiting import until_async

FIRST_SEGMENT = "00000000000000000000.log"


class Stage:
    """A writer over real files on a disk that may fail. ``answered``: the offsets of answered
    changes.
    """

    def __init__(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, settings: LogSettings
    ) -> None:
        self.disk = FaultyDisk()
        monkeypatch.setattr(audit_log, "Disk", lambda *, fsync: self.disk)
        monkeypatch.setattr(keep_audit, "_SYNC_DELAY_S", 0.01)
        self.reports = Reports()
        self.partition = AuditPartition(directory, settings, cluster_id="c")
        self.writer = AuditLogWriter(self.partition, lambda: {3: "", 1: ""}, self.reports)
        self.answered: list[int] = []

    def change(self, *offsets: int) -> None:
        """Record changes that were committed together, each with one record."""
        made = [_change(offset) for offset in offsets]
        self.writer.record(made, lambda: self.answered.extend(offsets))

    def told(self) -> list[dict[str, Any]]:
        """The entries that a consumer reads."""
        data = b"".join(
            data for _, _, data in batches_from(self.partition, self.partition.log_start_offset)
        )
        return [
            json.loads(record.value or b"")
            for batch in decode_batches(data)
            for record in batch.records
        ]

    def offsets(self) -> list[int]:
        return [one["offset"] for one in self.told()]

    def in_files(self) -> bytes:
        return b"".join(
            path.read_bytes() for path in sorted(Path(self.partition.log_dir).rglob("*.log"))
        )


def _change(offset: int) -> Change:
    request = CreateTopicsRequest(topics=[CreatableTopic(name=f"t{offset}")])
    return Change(
        request,
        7,
        Requester("User:alice", "10.0.0.7", "test"),
        1,
        5,
        offset,
        offset,
        1_795_269_787_512,
    )


@contextlib.asynccontextmanager
async def keeping(stage: Stage) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stage.writer.run)
        yield
        nursery.cancel_scope.cancel()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch, AUDIT_SETTINGS)


def test_entry_is_in_the_files_before_the_change_is_answered(stage: Stage) -> None:
    seen: list[bytes] = []
    stage.writer.record([_change(5)], lambda: seen.append(stage.in_files()))
    assert b'"name":"t5"' in seen[0]


def test_entry_is_shown_with_its_time_once_it_is_synced(stage: Stage) -> None:
    async def main() -> None:
        async with keeping(stage):
            before = stage.disk.log.count(f"sync {FIRST_SEGMENT}")
            stage.change(5)
            await until_async(lambda: stage.partition.high_watermark == 1)
            assert stage.disk.log.count(f"sync {FIRST_SEGMENT}") == before + 1
        (told,) = stage.told()
        assert (told["time"], told["principal"], told["offset"]) == (
            "2026-11-21T14:03:07.512Z",
            "User:alice",
            5,
        )
        assert stage.writer.nodes == [1, 3]

    run(main)


def test_changes_committed_together_are_one_write(stage: Stage) -> None:
    stage.change(1, 2, 3)
    assert stage.disk.log.count("write 00000000000000000000.log") == 1 and stage.answered == [
        1,
        2,
        3,
    ]


def test_changes_during_a_roll_are_one_write_in_order(stage: Stage) -> None:
    async def main() -> None:
        busy, go_on = threading.Event(), threading.Event()

        def slowly(now_ms: int) -> list[str]:
            busy.set()
            go_on.wait(10)
            return []

        stage.partition.clean = slowly  # type: ignore[method-assign]
        async with keeping(stage):
            await until_async(busy.is_set)
            stage.change(1, 2)
            stage.change(3)
            assert stage.answered == []
            go_on.set()
            await until_async(lambda: stage.answered == [1, 2, 3])
            assert stage.disk.log.count("write 00000000000000000000.log") == 1
            await until_async(lambda: stage.offsets() == [1, 2, 3])

    run(main)


def test_change_is_answered_before_the_sync(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_audit, "_SYNC_DELAY_S", 60)

    async def main() -> None:
        async with keeping(stage):
            for offset in range(5):
                stage.change(offset)
                await until_async(partial(stage.answered.__contains__, offset))
        assert stage.partition.high_watermark == 0 and stage.partition.end_offset == 5

    run(main)


def test_entry_is_shown_at_once_where_syncs_are_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, monkeypatch, replace(AUDIT_SETTINGS, fsync=False))
    monkeypatch.setattr(keep_audit, "_SYNC_DELAY_S", 60)

    async def main() -> None:
        async with keeping(stage):
            stage.change(1)
            await until_async(lambda: stage.offsets() == [1])

    run(main)


def test_full_disk_loses_the_entry_and_not_the_answer(stage: Stage) -> None:
    async def main() -> None:
        async with keeping(stage):
            stage.change(1)
            await until_async(lambda: stage.answered == [1])
            stage.disk.error, stage.disk.fails_next = errno.ENOSPC, f"write {FIRST_SEGMENT}"
            stage.change(2, 3)
            await until_async(lambda: stage.answered == [1, 2, 3])
            assert stage.reports.counts["change not recorded"] == 2
            stage.change(4)
            stage.change(5)
            await until_async(lambda: stage.offsets() == [1, 4, 5])
        assert [one.get("not_recorded_before") for one in stage.told()] == [None, 2, None]

    run(main)


def test_files_are_opened_again_after_a_failure(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_audit, "_REOPEN_S", 0.05)

    async def main() -> None:
        async with keeping(stage):
            stage.change(1)
            await until_async(lambda: stage.offsets() == [1])
            stage.disk.for_good, stage.disk.fails_at = True, stage.disk.count
            stage.change(2)
            await until_async(lambda: 2 in stage.answered)
            assert not stage.partition.is_writable
            stage.change(3)
            await until_async(lambda: stage.reports.counts["audit log not opened"] > 1)
            stage.change(4)
            assert stage.answered == [1, 2, 3, 4]
            stage.disk.fails_at = -1
            await until_async(lambda: stage.partition.is_writable)
            stage.change(5)
            await until_async(lambda: stage.offsets() == [1, 5])
        assert stage.told()[-1]["not_recorded_before"] == 3
        assert stage.reports.counts["change not recorded"] == 3

    run(main)


def test_failed_sync_is_reported_and_the_entry_shown(stage: Stage) -> None:
    # At the start it syncs as well, and would meet the failure first.
    stage.partition.clean = lambda now_ms: []  # type: ignore[method-assign]

    async def main() -> None:
        async with keeping(stage):
            stage.disk.error, stage.disk.fails_next = errno.EIO, f"sync {FIRST_SEGMENT}"
            stage.change(1)
            await until_async(lambda: stage.answered == [1])
            await until_async(lambda: stage.partition.high_watermark == 1)
        assert stage.reports.counts["audit log not synced"] == 1

    run(main)


def test_exception_in_an_entry_does_not_fail_the_change(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise RuntimeError("a bug")

    async def main() -> None:
        async with keeping(stage):
            with monkeypatch.context() as patch:
                patch.setattr(keep_audit, "audit_value", broken)
                stage.change(1)
                await until_async(lambda: stage.answered == [1])
            assert (
                stage.reports.counts["audit log failed"],
                stage.reports.counts["change not recorded"],
            ) == (1, 1)
            stage.change(2)
            await until_async(lambda: stage.offsets() == [2])

    run(main)


def test_change_that_waits_for_a_thread_is_written_when_the_server_ends(stage: Stage) -> None:
    async def main() -> None:
        busy, go_on = threading.Event(), threading.Event()

        def slowly(now_ms: int) -> list[str]:
            busy.set()
            go_on.wait(10)
            return []

        stage.partition.clean = slowly  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.writer.run)
            await until_async(busy.is_set)
            stage.change(1)
            nursery.cancel_scope.cancel()
            go_on.set()
        assert stage.answered == [1] and b'"name":"t1"' in stage.in_files()

    run(main)


def test_full_segment_is_rolled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, monkeypatch, replace(AUDIT_SETTINGS, segment_bytes=1))

    def has_files(count: int) -> bool:
        return len(list(tmp_path.rglob("*.log"))) == count

    async def main() -> None:
        async with keeping(stage):
            for offset in (1, 2, 3):
                stage.change(offset)
                await until_async(partial(has_files, offset + 1))
            await until_async(lambda: stage.offsets() == [1, 2, 3])

    run(main)


def test_files_that_fail_at_the_start_are_opened_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_audit, "_REOPEN_S", 0.01)

    def broken(now_ms: int) -> list[str]:
        stage.disk.fails_at = stage.disk.count
        stage.partition.roll()
        return []

    stage.partition.clean = broken  # type: ignore[method-assign]
    stage.change(1)

    async def main() -> None:
        async with keeping(stage):
            await until_async(lambda: stage.reports.counts["audit log not cleaned"] == 1)
            await until_async(lambda: stage.partition.is_writable)
            stage.change(2)
            await until_async(lambda: stage.offsets() == [1, 2])

    run(main)


def test_expired_segments_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_audit, "_CLEAN_S", 0.05)
    stage = Stage(
        tmp_path,
        monkeypatch,
        replace(AUDIT_SETTINGS, segment_bytes=1, segment_ms=1, retention_ms=1),
    )

    async def main() -> None:
        async with keeping(stage):
            stage.change(1)
            stage.change(2)
            await until_async(lambda: stage.partition.log_start_offset == 2)
            assert stage.told() == [] and stage.reports.counts["audit log cleaned"] >= 1

    run(main)


def test_repairs_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Stage(tmp_path, monkeypatch, AUDIT_SETTINGS)
    first.partition.append([audit_log.AuditRecord(1, b"torn")])
    (path,) = tmp_path.rglob("*.log")
    path.write_bytes(path.read_bytes()[:-1])
    stage = Stage(tmp_path, monkeypatch, AUDIT_SETTINGS)

    async def main() -> None:
        async with keeping(stage):
            await until_async(lambda: stage.reports.counts["audit log repaired"] == 1)

    run(main)
