"""Files and directories that were deleted go when their delay is over, or the disk is full."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.log.files.disk import DELETED
from gateway.log.files.errors import DiskFailed
from gateway.server.broker import delayed_deletions
from gateway.server.broker.delayed_deletions import DelayedDeletions
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kwire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.server.broker.test_broker_node import (
    alter_config,
    broker,
    consume,
    in_loop,
    produce,
    unfenced,
    with_topic,
)
from tests.gateway.server.broker.test_data_log_cleaner import Reports
from tests.waiting import until_async

GIB = 1 << 30


@dataclass
class Waiting:
    """Log directories ``a`` and ``b``, whose files a test discards."""

    root: Path
    disk: FaultyDisk = field(default_factory=FaultyDisk)
    reports: Any = field(default_factory=Reports)
    free: dict[str, int] = field(default_factory=lambda: {"a": GIB, "b": GIB})

    def __post_init__(self) -> None:
        self.clock = trio.testing.MockClock()
        directories = [self.root / name for name in self.free]
        for one in directories:
            one.mkdir()
        self.deletions = DelayedDeletions(self.disk, directories, self.reports)

    def discard(self, name: str, delay_ms: int) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"records")
        self.disk.discard(path, delay_ms)

    def free_bytes(self, directory: Path) -> int:
        return self.free[directory.name]

    async def after(self, seconds: float) -> None:
        """The task looks again, first at what was discarded, then when the time has passed."""
        await self.deletions.delete_due()
        self.clock.jump(seconds)
        await self.deletions.delete_due()

    @property
    def left(self) -> set[str]:
        return {path.relative_to(self.root).as_posix() for path in self.root.glob("*/*/*")}


def with_clock(
    root: Path, monkeypatch: pytest.MonkeyPatch, main: Callable[[Waiting], Awaitable[None]]
) -> Waiting:
    """Run ``main`` on a clock that only the test moves."""
    waiting = Waiting(root)
    monkeypatch.setattr(delayed_deletions, "free_bytes", waiting.free_bytes)
    trio.run(main, waiting, clock=waiting.clock)
    return waiting


def test_each_file_stays_for_its_own_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(waiting: Waiting) -> None:
        waiting.discard("a/t-0/1.log", 60_000)
        waiting.discard("a/t-0/2.log", 0)
        assert waiting.left == {"a/t-0/1.log.deleted"}, "without a delay it goes at once"
        waiting.discard("b/u-0/3.log", 5_000)
        await waiting.after(4)
        assert waiting.left == {"a/t-0/1.log.deleted", "b/u-0/3.log.deleted"}
        await waiting.after(4)
        assert waiting.left == {"a/t-0/1.log.deleted"}
        await waiting.after(50)
        assert waiting.left == {"a/t-0/1.log.deleted"}
        await waiting.after(6)
        assert waiting.left == set()

    assert with_clock(tmp_path, monkeypatch, main).reports.events == []


def test_directory_goes_with_its_files_and_one_that_was_rescued_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(waiting: Waiting) -> None:
        later = waiting.disk.delete_later
        assert later is not None
        waiting.discard("a/t-0/1.log", 1_000)
        for name in ("a/u-0.1f-delete", "a/v-0.2f-delete"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "0.log").write_bytes(b"records")
            later(tmp_path / name, 1_000)
        # The files that wait in a directory go with it.
        (tmp_path / "a/t-0").rename(tmp_path / "a/t-0.3f-delete")
        later(tmp_path / "a/t-0.3f-delete", 1_000)
        (tmp_path / "a/v-0.2f-delete").rename(tmp_path / "rescued")
        await waiting.after(3)
        assert list((tmp_path / "a").iterdir()) == []
        assert (tmp_path / "rescued" / "0.log").read_bytes() == b"records"

    assert with_clock(tmp_path, monkeypatch, main).reports.events == []


def test_full_disk_gets_its_space_at_once_and_another_one_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(waiting: Waiting) -> None:
        for number in range(3):
            waiting.discard(f"a/t-0/{number}.log", 60_000)
        waiting.discard("b/u-0/1.log", 60_000)
        await waiting.after(3)
        assert len(waiting.left) == 4
        waiting.free["a"] = 1_000
        await waiting.after(2)
        assert waiting.left == {"b/u-0/1.log.deleted"}
        await waiting.after(60)
        assert waiting.left == set()

    with_clock(tmp_path, monkeypatch, main)


def test_failed_deletion_is_reported_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(waiting: Waiting) -> None:
        for number in range(3):
            waiting.discard(f"a/t-0/{number}.log", 1_000)
        waiting.disk.error, waiting.disk.fails_at = errno.EIO, waiting.disk.count + 1
        await waiting.after(3)
        assert waiting.left == {"a/t-0/1.log.deleted"}

    reports = with_clock(tmp_path, monkeypatch, main).reports
    assert reports.events == ["partition not deleted"]


def test_free_space_that_cannot_be_told_changes_no_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Path) -> int:
        raise DiskFailed("look at", "a", OSError(errno.EIO, "broken"), "")

    async def main(waiting: Waiting) -> None:
        monkeypatch.setattr(delayed_deletions, "free_bytes", fails)
        waiting.discard("a/t-0/1.log", 4_000)
        await waiting.after(3)
        assert waiting.left == {"a/t-0/1.log.deleted"}
        await waiting.after(3)
        assert waiting.left == set()

    with_clock(tmp_path, monkeypatch, main)


def test_task_looks_again_and_again(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.deletions.run)
            for number in range(2):
                waiting.discard(f"a/t-0/{number}.log", 2_000)
                await until_async(lambda: waiting.left == set(), "its delay is over")
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(rate=100))


async def delete_records(node: Any, before: int) -> None:
    """Delete the records of ``t`` below an offset."""
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    topics = [DeleteRecordsTopic(name="t", partitions=[partition])]
    answer = await node.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
    assert answer.topics[0].partitions[0].error_code == 0


def waiting_files(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.glob(f"t-0/*{DELETED}")}


@in_loop
async def test_deleted_records_wait_as_the_topic_says_until_the_next_start(tmp_path: Path) -> None:
    async with broker(tmp_path, metadata_audit_enable=False) as node:
        await with_topic(node)
        await alter_config(node, TOPIC_RESOURCE, "t", "segment.bytes", "1048576")
        for _ in range(5):
            await produce(node, b"v" * 450_000)
        await delete_records(node, 2)
        first = {f"{0:020}.{kind}.deleted" for kind in ("log", "index", "timeindex")}
        assert waiting_files(tmp_path) == first
        await alter_config(node, TOPIC_RESOURCE, "t", "file.delete.delay.ms", "0")
        await delete_records(node, 4)
        assert waiting_files(tmp_path) == first, "the other segment went at once"
    async with broker(tmp_path, metadata_audit_enable=False) as node:
        await unfenced(node)
        assert [offset for offset, _ in await consume(node, offset=4)] == [4]
        assert waiting_files(tmp_path) == set()


@in_loop
async def test_directory_of_a_deleted_topic_waits_as_the_broker_says(tmp_path: Path) -> None:
    def left(name: str) -> list[Path]:
        return list(tmp_path.glob(f"{name}-0*"))

    async def delete(node: Any, name: str) -> None:
        topics = [DeleteTopicState(name=name)]
        await node.ask(DeleteTopicsRequest(topics=topics, timeout_ms=5000), 6)

    async with broker(tmp_path, metadata_audit_enable=False) as node:
        await with_topic(node)
        await with_topic(node, "u")
        await produce(node, b"a")
        await delete(node, "t")
        await until_async(lambda: [one.name[-7:] for one in left("t")] == ["-delete"], "it waits")
        await alter_config(node, BROKER_RESOURCE, "", "log.segment.delete.delay.ms", "0")
        await delete(node, "u")
        await until_async(lambda: left("u") == [], "it is gone")
        ((kept,),) = (left("t"),)
        assert (kept / f"{0:020}.log").stat().st_size > 0
    async with broker(tmp_path, metadata_audit_enable=False) as node:
        await unfenced(node)
        assert left("t") == []
