"""A marker that comes while the coordinator is loaded completes what the load has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import trio

from gateway.groups import Record
from gateway.groups.events import Committed
from gateway.groups.pending_offsets import PendingRecord
from gateway.groups.records import offset_record
from gateway.server.groups.group_driver import GroupDriver
from gateway.server.groups.group_store import LoadedRecords
from tests.gateway.server.groups.group_driving import SETTINGS, committed, fetch, run, submit


class LoadingStore:
    """A store with one pending offset, whose load waits for the test."""

    def __init__(self) -> None:
        self.loading = trio.Event()
        self.gate = trio.Event()

    async def load(self) -> LoadedRecords:
        self.loading.set()
        await self.gate.wait()
        key, value = offset_record("g", ("t", 0), Committed(5, -1, "", 1))
        assert value is not None
        return LoadedRecords([], {}, [PendingRecord(7, key, value)])

    async def append(
        self,
        records: Sequence[Record],
        timestamp_ms: int,
        owners: Mapping[bytes, str],
        producer: tuple[int, int] | None = None,
    ) -> None:
        raise AssertionError("a marker is no record of the coordinator")

    async def compact(self) -> None:
        raise AssertionError("nothing was written")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("is_committed", "found"), [(True, [5]), (False, [])])
def test_marker_during_the_load_counts(is_committed: bool, found: list[int]) -> None:
    async def main() -> None:
        store = LoadingStore()
        driver = GroupDriver(store, SETTINGS, node_id=7)
        driver.complete_transaction(7, 0, not is_committed)  # the load would have found it
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driver.run)
            await store.loading.wait()
            driver.complete_transaction(7, 0, is_committed)
            store.gate.set()
            while submit(driver, fetch()).results[0].groups[0].error:
                await trio.lowlevel.checkpoint()
            assert committed(await submit(driver, fetch()).result()) == found
            nursery.cancel_scope.cancel()

    run(main)
