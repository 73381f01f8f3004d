"""The driver over a store that answers when the test wants: markers that come while it loads, and
an end while it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import trio
import trio.testing

from gateway.groups import Record
from gateway.groups.events import Committed
from gateway.groups.pending_offsets import PendingRecord
from gateway.groups.records import offset_record
from gateway.server.groups.group_driver import GroupDriver
from gateway.server.groups.group_store import LoadedRecords
from kwire.protocol import ErrorCode
from tests.gateway.server.groups.group_driving import (
    SETTINGS,
    commit,
    committed,
    fetch,
    run,
    submit,
)


class LoadingStore:
    """A store with one pending offset, whose load waits for the test; it writes nothing."""

    def __init__(self) -> None:
        self.loading = trio.Event()
        self.gate = trio.Event()
        self.appending = trio.Event()

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
        self.appending.set()
        await trio.sleep_forever()

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


def test_end_does_not_wait_for_ever_for_a_store_that_writes_nothing() -> None:
    async def main() -> None:
        store = LoadingStore()
        store.gate.set()
        driver = GroupDriver(store, SETTINGS, node_id=7)
        async with trio.open_nursery() as nursery:
            await nursery.start(driver.run)
            waiting = submit(driver, commit(1))
            await store.appending.wait()
            nursery.cancel_scope.cancel()
        assert waiting.results[0].errors == (ErrorCode.NOT_COORDINATOR,)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
