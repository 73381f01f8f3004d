"""Runs a group driver over a directory, with a disk that a test can stop and fail."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.groups import Settings
from gateway.groups import events as e
from gateway.log.files.errors import DiskFailed
from gateway.log.offsets.offset_store import OffsetStore
from gateway.server.groups.group_driver import GroupDriver
from gateway.server.groups.local_group_store import LocalGroupStore
from tests.waiting import PATIENCE_S

SETTINGS = Settings(initial_rebalance_delay_ms=0)


class Waiter:
    """Stands for the pending response of a handler: takes one result and sets an event."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self._given = trio.Event()

    def complete(self, result: Any) -> None:
        self.results.append(result)
        self._given.set()

    async def result(self) -> Any:
        with trio.fail_after(PATIENCE_S):
            await self._given.wait()
        (result,) = self.results
        return result


@asynccontextmanager
async def running(directory: Path, settings: Settings = SETTINGS) -> AsyncIterator[GroupDriver]:
    driver = GroupDriver(LocalGroupStore(directory), settings, node_id=7)
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        yield driver
        nursery.cancel_scope.cancel()


def commit(offset: int, group: str = "g") -> e.OffsetCommit:
    return e.OffsetCommit(
        group_id=group,
        member_id="",
        instance_id=None,
        generation=-1,
        retention_ms=-1,
        offsets=(e.OffsetToCommit("t", 0, offset, -1, ""),),
        knows_group_id_not_found=True,
    )


def fetch(group: str = "g") -> e.OffsetFetch:
    return e.OffsetFetch(((group, None),))


def join(member_id: str = "", session_ms: int = 10_000, rebalance_ms: int = 60_000) -> e.JoinGroup:
    return e.JoinGroup(
        group_id="g",
        member_id=member_id,
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type="consumer",
        protocols=(e.Protocol("range", b"?"),),
        member_id_required=False,
        can_skip_assignment=True,
    )


def submit(driver: GroupDriver, event: e.Event) -> Waiter:
    waiter = Waiter()
    driver.submit(event, waiter)
    return waiter


def committed(result: e.OffsetFetchResult) -> list[int]:
    return [offset.offset for _, offset in result.groups[0].offsets if offset is not None]


def disk_failed(number: int) -> DiskFailed:
    """The error of a disk that refuses a write."""
    return DiskFailed("write", "a file", OSError(number, os.strerror(number)), "wait")


class GatedDisk:
    """Holds appends in their thread until the test opens the gate; counts them; fails on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.appended: list[int] = []
        self.failures: list[DiskFailed] = []
        real = OffsetStore.append
        disk = self

        def append(
            store: OffsetStore, records: Sequence[Any], timestamp_ms: int, **more: Any
        ) -> None:
            disk.entered.set()
            assert disk.gate.wait(5)
            if disk.failures:
                store.close()
                raise disk.failures.pop()
            disk.appended.append(len(records))
            real(store, records, timestamp_ms, **more)

        monkeypatch.setattr(OffsetStore, "append", append)


def run(test: Callable[..., Any], *args: Any) -> None:
    trio.run(test, *args)


def long_commit(offset: int, group: str = "g") -> e.OffsetCommit:
    """A commit that takes several slices."""
    offsets = tuple(e.OffsetToCommit("t", number, offset, -1, "") for number in range(2_000))
    return e.OffsetCommit(
        group_id=group,
        member_id="",
        instance_id=None,
        generation=-1,
        retention_ms=-1,
        offsets=offsets,
        knows_group_id_not_found=True,
    )
