"""The group driver when the disk fails, the coordinator raises, or the store cannot be used."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.groups import GroupCoordinator, Settings
from gateway.log.files.errors import LogLocked
from gateway.log.offsets.offset_store import DIRECTORY, OffsetStore
from gateway.server.groups import group_driver
from gateway.server.groups.group_driver import GroupDriver, GroupsUnreadableError
from gateway.server.groups.local_group_store import LocalGroupStore
from kwire.protocol import ErrorCode
from tests.gateway.log.offset_store_files import SEGMENT
from tests.gateway.server.groups.group_driving import (
    SETTINGS,
    GatedDisk,
    commit,
    committed,
    disk_failed,
    fetch,
    join,
    long_commit,
    run,
    running,
    submit,
)
from tests.waiting import until_async


def test_failed_write_moves_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_driver, "_RETRY_S", (0.01, 0.02))
    disk = GatedDisk(monkeypatch)
    disk.gate.set()
    real = OffsetStore.__init__
    opened: list[bool] = []

    def opens_late(store: OffsetStore, directory: Path, **options: Any) -> None:
        opened.append(options.get("rewrite", False))
        if len(opened) in (2, 3):
            raise disk_failed(errno.ENOSPC)
        real(store, directory, **options)

    monkeypatch.setattr(OffsetStore, "__init__", opens_late)

    async def main() -> None:
        async with running(tmp_path) as driver:
            await submit(driver, commit(1)).result()
            await submit(driver, join()).result()
            follower = submit(driver, join())
            disk.failures.append(disk_failed(errno.ENOSPC))
            lost = submit(driver, commit(2, "h"))
            assert (await lost.result()).errors == (ErrorCode.NOT_COORDINATOR,)
            assert (await follower.result()).error is ErrorCode.NOT_COORDINATOR
            assert (
                submit(driver, fetch()).results[0].groups[0].error
                is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
            await until_async(
                lambda: len(opened) == 4 and not submit(driver, fetch()).results[0].groups[0].error
            )
            # The reloaded coordinator has what was on disk, and nothing else.
            assert committed(await submit(driver, fetch()).result()) == [1]
            assert committed(await submit(driver, fetch("h")).result()) == []
            assert (await submit(driver, commit(3, "h")).result()).errors == [ErrorCode.NONE]
        assert opened == [False, True, True, True]
        async with running(tmp_path) as driver:
            assert committed(await submit(driver, fetch("h")).result()) == [3]

    run(main)


def test_failed_write_at_shutdown_fails_the_waiting_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = GatedDisk(monkeypatch)

    async def main() -> None:
        async with running(tmp_path) as driver:
            first = submit(driver, commit(1))
            await trio.to_thread.run_sync(disk.entered.wait)
            second = submit(driver, commit(2, "h"))
            disk.failures.append(disk_failed(errno.EIO))
            disk.gate.set()
        assert (await first.result()).errors == (ErrorCode.NOT_COORDINATOR,)
        assert (await second.result()).errors == (ErrorCode.NOT_COORDINATOR,)

    run(main)


def test_failed_compaction_is_retried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        OffsetStore.__init__,
        "__kwdefaults__",
        {"compact_bytes_min": 200, "rewrite": False, "disk": None},
    )
    tries: list[int] = []

    def fails(store: OffsetStore) -> None:
        tries.append(1)
        raise disk_failed(errno.ENOSPC)

    monkeypatch.setattr(OffsetStore, "compact", fails)

    async def main() -> None:
        async with running(tmp_path) as driver:
            for i in range(30):
                assert (await submit(driver, commit(i)).result()).errors == [ErrorCode.NONE]
        assert len(tries) == 1

    run(main)


def test_failing_callback_does_not_fail_other_results(tmp_path: Path) -> None:
    class Broken:
        def complete(self, result: Any) -> None:
            raise ValueError("cannot be put into a response")

    async def main() -> None:
        async with running(tmp_path) as driver:
            driver.submit(commit(1), Broken())
            assert (await submit(driver, commit(2)).result()).errors == [ErrorCode.NONE]

    run(main)


@pytest.mark.parametrize("where", ["handle_in_slices", "on_timer_in_slices"])
def test_exception_in_the_coordinator_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    async def main() -> None:
        async with running(
            tmp_path, Settings(initial_rebalance_delay_ms=30, min_session_timeout_ms=1)
        ) as driver:
            await submit(driver, commit(1)).result()
            parked = submit(driver, join())

            def mistaken(*_: Any) -> None:
                monkeypatch.undo()
                raise AssertionError("this cannot be")

            monkeypatch.setattr(GroupCoordinator, where, mistaken)
            if where == "handle_in_slices":
                assert submit(driver, commit(2)).results[0].errors == (
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                )
            assert (await parked.result()).error is ErrorCode.NOT_COORDINATOR
            await until_async(lambda: not submit(driver, fetch()).results[0].groups[0].error)
            assert committed(await submit(driver, fetch()).result()) == [1]
            assert (await submit(driver, join()).result()).generation == 1

    run(main)


def test_requests_that_wait_when_the_coordinator_is_given_up_are_told_that_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        disk = GatedDisk(monkeypatch)
        disk.gate.set()
        async with running(tmp_path) as driver:
            disk.gate.clear()
            disk.failures.append(disk_failed(errno.ENOSPC))
            written = submit(driver, commit(1))
            await trio.to_thread.run_sync(disk.entered.wait)
            half, waiting = submit(driver, long_commit(2)), submit(driver, fetch())
            driver._unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
            for waiter in (written, half):
                assert set((await waiter.result()).errors) == {ErrorCode.NOT_COORDINATOR}
            assert (await waiting.result()).groups[0].error is ErrorCode.NOT_COORDINATOR
            disk.gate.set()

    run(main)


def test_store_in_use_fails_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path):
            other = GroupDriver(LocalGroupStore(tmp_path), SETTINGS, node_id=1)
            with pytest.raises(LogLocked, match=r"state\.dir"):
                await other.run()

    run(main)


def test_unreadable_store_fails_the_start_and_stays_unchanged(tmp_path: Path) -> None:
    store = OffsetStore(tmp_path / DIRECTORY)
    store.append([(b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\x63of a newer version")], 1)
    store.close()
    before = (tmp_path / DIRECTORY / SEGMENT).read_bytes()

    async def main() -> None:
        with pytest.raises(GroupsUnreadableError, match="unknown version 99"):
            await GroupDriver(LocalGroupStore(tmp_path), SETTINGS, node_id=1).run()

    run(main)
    assert (tmp_path / DIRECTORY / SEGMENT).read_bytes() == before
    OffsetStore(tmp_path / DIRECTORY).close()  # it was let go
