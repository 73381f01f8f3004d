"""The driver of the group coordinator: answers after the disk, one sync for many, failures, time,
and the end.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.config import Config
from gateway.groups import Error, GroupCoordinator, Settings
from gateway.groups import events as e
from gateway.log.offset_store import DIRECTORY, SEGMENT, OffsetStore, StoreLockedError
from gateway.server.groups import group_driver
from gateway.server.groups.group_driver import GroupDriver, GroupsUnreadableError, settings_of

SETTINGS = Settings(initial_rebalance_delay_ms=0)


class Waiter:
    """Stands for a handler's Later: one result, and an event for it."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self._given = trio.Event()

    def complete(self, result: Any) -> None:
        self.results.append(result)
        self._given.set()

    async def result(self) -> Any:
        with trio.fail_after(5):
            await self._given.wait()
        (result,) = self.results
        return result


@asynccontextmanager
async def running(directory: Path, settings: Settings = SETTINGS) -> AsyncIterator[GroupDriver]:
    driver = GroupDriver(directory, settings, node_id=7)
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        yield driver
        nursery.cancel_scope.cancel()


def commit(offset: int, group: str = "g") -> e.OffsetCommit:
    return e.OffsetCommit(
        group_id=group, member_id="", instance_id=None, generation=-1, retention_ms=-1,
        offsets=(e.OffsetToCommit("t", 0, offset, -1, ""),), knows_group_id_not_found=True,
    )  # fmt: skip


def fetch(group: str = "g") -> e.OffsetFetch:
    return e.OffsetFetch(((group, None),))


def join(member_id: str = "", session_ms: int = 10_000, rebalance_ms: int = 60_000) -> e.JoinGroup:
    return e.JoinGroup(
        group_id="g", member_id=member_id, instance_id=None, client_id="c", client_host="/h", session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms, protocol_type="consumer", protocols=(e.Protocol("range", b"?"),),
        member_id_required=False, can_skip_assignment=True,
    )  # fmt: skip


def submit(driver: GroupDriver, event: e.Event) -> Waiter:
    waiter = Waiter()
    driver.submit(event, waiter)
    return waiter


def committed(result: e.OffsetFetchResult) -> list[int]:
    return [offset.offset for _, offset in result.groups[0].offsets if offset is not None]


class GatedDisk:
    """Holds appends in their thread until the test opens the gate; counts them; fails on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.appended: list[int] = []
        self.failures: list[OSError] = []
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


def test_commits_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as driver:
            assert driver.coordinator_node_id == 7
            assert (await submit(driver, commit(5)).result()).errors == [Error.NONE]
        async with running(tmp_path) as driver:
            assert committed(await submit(driver, fetch()).result()) == [5]

    run(main)


def test_results_wait_for_the_disk_and_share_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = GatedDisk(monkeypatch)

    async def main() -> None:
        async with running(tmp_path) as driver:
            first = submit(driver, commit(1))
            await trio.to_thread.run_sync(disk.entered.wait)
            others = [submit(driver, commit(i, f"g{i}")) for i in range(50)]
            shows = submit(driver, fetch())
            # What does not depend on the disk is answered past what does.
            away = submit(
                driver, e.Heartbeat(group_id="g", member_id="z", instance_id=None, generation=1)
            )
            elsewhere = submit(driver, fetch("nobody"))
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert [first.results, shows.results] == [[], []] and not any(
                waiter.results for waiter in others
            )
            assert away.results == [e.HeartbeatResult(error=Error.UNKNOWN_MEMBER_ID)]
            assert committed(elsewhere.results[0]) == []
            disk.gate.set()
            for waiter in [first, *others]:
                assert (await waiter.result()).errors == [Error.NONE]
            assert committed(await shows.result()) == [1]
            assert disk.appended == [1, 50]

    run(main)


def test_shutdown_writes_handled_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = GatedDisk(monkeypatch)

    async def main() -> None:
        async with running(tmp_path) as driver:
            first = submit(driver, commit(1))
            await trio.to_thread.run_sync(disk.entered.wait)
            second = submit(driver, commit(2, "h"))
            disk.gate.set()
        assert (await first.result()).errors == (await second.result()).errors == [Error.NONE]
        assert submit(driver, commit(3)).results[0].errors == (Error.COORDINATOR_NOT_AVAILABLE,)
        async with running(tmp_path) as driver:
            assert committed(await submit(driver, fetch("h")).result()) == [2]

    run(main)


def test_shutdown_answers_waiting_requests(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as driver:
            joined = (await submit(driver, join()).result()).member_id
            follower = submit(driver, join())  # waits for the first to join again
            await trio.testing.wait_all_tasks_blocked()
            assert follower.results == []
            assert joined
        assert (await follower.result()).error is Error.NOT_COORDINATOR

    run(main)


def test_request_before_the_store_is_read_gets_load_in_progress(tmp_path: Path) -> None:
    async def main() -> None:
        driver = GroupDriver(tmp_path, SETTINGS, node_id=1)
        assert (
            submit(driver, fetch()).results[0].groups[0].error is Error.COORDINATOR_LOAD_IN_PROGRESS
        )
        heartbeat = e.Heartbeat(group_id="g", member_id="z", instance_id=None, generation=1)
        assert submit(driver, heartbeat).results == [e.HeartbeatResult(error=Error.NONE)]

    run(main)


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
            raise OSError(errno.ENOSPC, "no space")
        real(store, directory, **options)

    monkeypatch.setattr(OffsetStore, "__init__", opens_late)

    async def main() -> None:
        async with running(tmp_path) as driver:
            await submit(driver, commit(1)).result()
            await submit(driver, join()).result()
            follower = submit(driver, join())
            disk.failures.append(OSError(errno.ENOSPC, "no space"))
            lost = submit(driver, commit(2, "h"))
            assert (await lost.result()).errors == (Error.NOT_COORDINATOR,)
            assert (await follower.result()).error is Error.NOT_COORDINATOR
            assert (
                submit(driver, fetch()).results[0].groups[0].error
                is Error.COORDINATOR_LOAD_IN_PROGRESS
            )
            with trio.fail_after(5):
                while len(opened) < 4 or submit(driver, fetch()).results[0].groups[0].error:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            # What was on disk is there, what was not is not, and it goes on.
            assert committed(await submit(driver, fetch()).result()) == [1]
            assert committed(await submit(driver, fetch("h")).result()) == []
            assert (await submit(driver, commit(3, "h")).result()).errors == [Error.NONE]
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
            disk.failures.append(OSError(errno.EIO, "gone"))
            disk.gate.set()
        assert (await first.result()).errors == (Error.NOT_COORDINATOR,)
        assert (await second.result()).errors == (Error.NOT_COORDINATOR,)

    run(main)


def test_timer_fires_at_its_deadline(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(initial_rebalance_delay_ms=40, min_session_timeout_ms=1)
        async with running(tmp_path, settings) as driver:
            begin = trio.current_time()
            first = submit(driver, join(session_ms=50, rebalance_ms=50))
            assert (await first.result()).generation == 1
            assert trio.current_time() - begin >= 0.04
            # It never syncs nor heartbeats: gone after its session, and the group is empty.
            with trio.fail_after(5):
                while (await submit(driver, e.ListGroups()).result()).groups[0].state != "Empty":  # noqa: ASYNC110
                    await trio.sleep(0.01)

    run(main)


def test_driver_sleeps_until_the_next_deadline(tmp_path: Path) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0.02)

    async def main() -> None:
        async with running(tmp_path) as driver:
            waiter = submit(driver, join())
            await waiter.result()
            await trio.sleep(60)
            groups = (await submit(driver, e.ListGroups()).result()).groups
            assert [(group.group_id, group.state) for group in groups] == [("g", "Empty")]
            assert driver._wakes_at == pytest.approx(
                Settings().retention_check_interval_ms / 1000, abs=1
            )

    trio.run(main, clock=clock)


def test_store_is_compacted_when_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        OffsetStore.__init__, "__kwdefaults__", {"compact_bytes_min": 2000, "rewrite": False}
    )

    async def main() -> None:
        async with running(tmp_path) as driver:
            for i in range(60):
                await submit(driver, commit(i)).result()
        assert (tmp_path / DIRECTORY / SEGMENT).stat().st_size < 2500
        async with running(tmp_path) as driver:
            assert committed(await submit(driver, fetch()).result()) == [59]

    run(main)


def test_failed_compaction_is_retried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        OffsetStore.__init__, "__kwdefaults__", {"compact_bytes_min": 200, "rewrite": False}
    )
    tries: list[int] = []

    def fails(store: OffsetStore) -> None:
        tries.append(1)
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(OffsetStore, "compact", fails)

    async def main() -> None:
        async with running(tmp_path) as driver:
            for i in range(30):
                assert (await submit(driver, commit(i)).result()).errors == [Error.NONE]
        assert len(tries) == 1

    run(main)


def test_failing_callback_does_not_fail_other_results(tmp_path: Path) -> None:
    class Broken:
        def complete(self, result: Any) -> None:
            raise ValueError("cannot be put into a response")

    async def main() -> None:
        async with running(tmp_path) as driver:
            driver.submit(commit(1), Broken())
            assert (await submit(driver, commit(2)).result()).errors == [Error.NONE]

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
                assert submit(driver, commit(2)).results[0].errors == (Error.UNKNOWN_SERVER_ERROR,)
            assert (await parked.result()).error is Error.NOT_COORDINATOR
            with trio.fail_after(5):
                while submit(driver, fetch()).results[0].groups[0].error:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            assert committed(await submit(driver, fetch()).result()) == [1]
            assert (await submit(driver, join()).result()).generation == 1

    run(main)


def long_commit(offset: int, group: str = "g") -> e.OffsetCommit:
    """A commit that takes several slices."""
    offsets = tuple(e.OffsetToCommit("t", number, offset, -1, "") for number in range(2_000))
    return e.OffsetCommit(
        group_id=group, member_id="", instance_id=None, generation=-1, retention_ms=-1,
        offsets=offsets, knows_group_id_not_found=True,
    )  # fmt: skip


def test_requests_wait_in_order_while_a_long_one_is_carried_out_in_slices(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as driver:
            long, short = submit(driver, long_commit(1)), submit(driver, commit(2))
            asked = submit(driver, fetch())
            assert not asked.results, "it was answered before a request that came earlier"
            passes = 0
            while not asked.results:
                await trio.lowlevel.checkpoint()
                passes += 1
            assert passes > 2, "no other task ran between slices"
            assert (await long.result()).errors == [Error.NONE] * 2_000
            assert (await short.result()).errors == [Error.NONE]
            assert committed(await asked.result()) == [2] + [1] * 1_999

    run(main)


def test_requests_that_wait_when_the_coordinator_is_given_up_are_told_that_it_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        disk = GatedDisk(monkeypatch)
        disk.gate.set()
        async with running(tmp_path) as driver:
            disk.gate.clear()
            disk.failures.append(OSError("no space left"))
            written = submit(driver, commit(1))
            await trio.to_thread.run_sync(disk.entered.wait)
            half, waiting = submit(driver, long_commit(2)), submit(driver, fetch())
            driver._give_up(Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_COORDINATOR)
            for waiter in (written, half):
                assert set((await waiter.result()).errors) == {Error.NOT_COORDINATOR}
            assert (await waiting.result()).groups[0].error is Error.NOT_COORDINATOR
            disk.gate.set()

    run(main)


def test_store_in_use_fails_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path):
            other = GroupDriver(tmp_path, SETTINGS, node_id=1)
            with pytest.raises(StoreLockedError, match=r"state\.dir"):
                await other.run()

    run(main)


def test_unreadable_store_fails_the_start_and_stays_unchanged(tmp_path: Path) -> None:
    store = OffsetStore(tmp_path / DIRECTORY)
    store.append([(b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\x63of a newer version")], 1)
    store.close()
    before = (tmp_path / DIRECTORY / SEGMENT).read_bytes()

    async def main() -> None:
        with pytest.raises(GroupsUnreadableError, match="unknown version 99"):
            await GroupDriver(tmp_path, SETTINGS, node_id=1).run()

    run(main)
    assert (tmp_path / DIRECTORY / SEGMENT).read_bytes() == before
    OffsetStore(tmp_path / DIRECTORY).close()  # it was let go


def test_settings_come_from_kafkas_keys() -> None:
    config = Config(
        group_initial_rebalance_delay_ms=1, group_min_session_timeout_ms=2, group_max_session_timeout_ms=3,
        group_max_size=4, offset_metadata_max_bytes=5, offsets_retention_minutes=6, offsets_retention_check_interval_ms=7,
        groups_max=8, groups_max_per_principal=9, groups_members_max=10, groups_members_max_per_principal=11,
        groups_bytes_max=1200, groups_bytes_max_per_principal=1300, groups_bytes_max_per_group=1400,
        groups_bytes_reserved_per_group=15,
    )  # fmt: skip
    assert settings_of(config) == Settings(
        initial_rebalance_delay_ms=1, min_session_timeout_ms=2, max_session_timeout_ms=3,
        max_size=4, offset_metadata_max=5, offsets_retention_ms=360_000, retention_check_interval_ms=7,
        groups_max=8, groups_max_per_principal=9, members_max=10, members_max_per_principal=11, bytes_max=1200,
        bytes_max_per_principal=1300, bytes_max_per_group=1400, bytes_reserved_per_group=15,
    )  # fmt: skip


def test_refusals_are_counted_and_owners_of_offsets_survive_restart_and_compaction(
    tmp_path: Path,
) -> None:
    owned = replace(commit(1), owner="User:alice")

    async def main() -> None:
        async with running(tmp_path, Settings(groups_max_per_principal=1)) as driver:
            assert (await submit(driver, owned).result()).errors == [Error.NONE]
            refused = await submit(driver, replace(owned, group_id="h")).result()
            assert refused.errors == (Error.POLICY_VIOLATION,)
            assert driver.refusals == {"groups.max.per.principal": 1}
            held = driver.usage.of("User:alice").offset_bytes
            assert driver._store is not None and held > 0
            driver._store.compact()
        async with running(tmp_path) as driver:
            assert driver.usage.of("User:alice").offset_bytes == held
            assert driver.usage.of("User:alice").groups == 1

    run(main)
