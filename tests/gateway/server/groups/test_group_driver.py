"""The group driver: results wait for the disk and share syncs; timers, compaction and shutdown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from gateway.config.config import Config
from gateway.groups import Settings
from gateway.groups import events as e
from gateway.log.offsets.offset_store import DIRECTORY, OffsetStore
from gateway.server.groups.group_driver import GroupDriver, settings_of
from gateway.server.groups.local_group_store import LocalGroupStore
from kwire.protocol import ErrorCode
from tests.gateway.server.groups.group_driving import (
    SETTINGS,
    GatedDisk,
    commit,
    committed,
    fetch,
    join,
    long_commit,
    run,
    running,
    submit,
)


def test_commits_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as driver:
            assert driver.coordinator_of("g") == 7
            assert (await submit(driver, commit(5)).result()).errors == [ErrorCode.NONE]
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
            # A result without records does not wait for the disk.
            away = submit(
                driver, e.Heartbeat(group_id="g", member_id="z", instance_id=None, generation=1)
            )
            elsewhere = submit(driver, fetch("nobody"))
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert [first.results, shows.results] == [[], []] and not any(
                waiter.results for waiter in others
            )
            assert away.results == [e.HeartbeatResult(error=ErrorCode.UNKNOWN_MEMBER_ID)]
            assert committed(elsewhere.results[0]) == []
            disk.gate.set()
            for waiter in [first, *others]:
                assert (await waiter.result()).errors == [ErrorCode.NONE]
            assert committed(await shows.result()) == [1]
            assert disk.appended == [1, 50]

    run(main)


def test_requests_whose_records_are_not_written_in_time_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = GatedDisk(monkeypatch), trio.testing.MockClock()

    async def main() -> None:
        settings = replace(SETTINGS, commit_timeout_ms=1500)
        async with running(tmp_path, settings) as driver:
            first = submit(driver, commit(1))
            await trio.to_thread.run_sync(disk.entered.wait)
            clock.jump(1)
            deletes = submit(driver, e.DeleteGroups(("g",)))
            await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(0.6)
            late = ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await first.result()).errors == (late,)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert deletes.results == []
            clock.jump(1)
            assert (await deletes.result()).errors == (late,)
            disk.gate.set()
            # The records are there all the same.
            assert (await submit(driver, commit(2, "h2")).result()).errors == [ErrorCode.NONE]
            assert committed(await submit(driver, fetch()).result()) == []

    trio.run(main, clock=clock)


def test_shutdown_writes_handled_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = GatedDisk(monkeypatch)

    async def main() -> None:
        async with running(tmp_path) as driver:
            first = submit(driver, commit(1))
            await trio.to_thread.run_sync(disk.entered.wait)
            second = submit(driver, commit(2, "h"))
            disk.gate.set()
        assert (await first.result()).errors == (await second.result()).errors == [ErrorCode.NONE]
        assert submit(driver, commit(3)).results[0].errors == (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
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
        assert (await follower.result()).error is ErrorCode.NOT_COORDINATOR

    run(main)


def test_request_before_the_store_is_read_gets_load_in_progress(tmp_path: Path) -> None:
    async def main() -> None:
        driver = GroupDriver(LocalGroupStore(tmp_path), SETTINGS, node_id=1)
        assert (
            submit(driver, fetch()).results[0].groups[0].error
            is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        heartbeat = e.Heartbeat(group_id="g", member_id="z", instance_id=None, generation=1)
        assert submit(driver, heartbeat).results == [e.HeartbeatResult(error=ErrorCode.NONE)]
        nameless = replace(join(), group_id="")
        assert submit(driver, nameless).results[0].error is ErrorCode.INVALID_GROUP_ID

    run(main)


def test_timer_fires_at_its_deadline(tmp_path: Path) -> None:
    clock = trio.testing.MockClock()

    async def main() -> None:
        settings = Settings(initial_rebalance_delay_ms=4000, min_session_timeout_ms=1)
        async with running(tmp_path, settings) as driver:
            first = submit(driver, join(session_ms=5000, rebalance_ms=5000))
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(3.9)
            await trio.testing.wait_all_tasks_blocked()
            assert first.results == []
            clock.jump(0.2)
            assert (await first.result()).generation == 1
            # It never syncs nor heartbeats: gone after its session, and the group is empty.
            clock.jump(6)
            await trio.testing.wait_all_tasks_blocked()
            [group] = (await submit(driver, e.ListGroups()).result()).groups
            assert group.state == "Empty"

    trio.run(main, clock=clock)


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
        OffsetStore.__init__,
        "__kwdefaults__",
        {"compact_bytes_min": 2000, "rewrite": False, "disk": None},
    )

    async def main() -> None:
        async with running(tmp_path) as driver:
            for i in range(60):
                await submit(driver, commit(i)).result()
        segments = list((tmp_path / DIRECTORY).glob("*.log"))
        assert len(segments) == 2 and sum(one.stat().st_size for one in segments) < 2500
        async with running(tmp_path) as driver:
            assert committed(await submit(driver, fetch()).result()) == [59]

    run(main)


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
            assert (await long.result()).errors == [ErrorCode.NONE] * 2_000
            assert (await short.result()).errors == [ErrorCode.NONE]
            assert committed(await asked.result()) == [2] + [1] * 1_999

    run(main)


def test_settings_come_from_kafkas_keys() -> None:
    config = Config(
        group_initial_rebalance_delay_ms=1,
        group_min_session_timeout_ms=2,
        group_max_session_timeout_ms=3,
        group_max_size=4,
        offset_metadata_max_bytes=5,
        offsets_retention_minutes=6,
        offsets_retention_check_interval_ms=7,
        groups_max=8,
        groups_max_per_principal=9,
        groups_members_max=10,
        groups_members_max_per_principal=11,
        groups_bytes_max=1200,
        groups_bytes_max_per_principal=1300,
        groups_bytes_max_per_group=1400,
        groups_bytes_reserved_per_group=15,
    )
    assert settings_of(config) == Settings(
        initial_rebalance_delay_ms=1,
        min_session_timeout_ms=2,
        max_session_timeout_ms=3,
        max_size=4,
        offset_metadata_max=5,
        offsets_retention_ms=360_000,
        retention_check_interval_ms=7,
        groups_max=8,
        groups_max_per_principal=9,
        members_max=10,
        members_max_per_principal=11,
        bytes_max=1200,
        bytes_max_per_principal=1300,
        bytes_max_per_group=1400,
        bytes_reserved_per_group=15,
    )


def test_refusals_are_counted_and_owners_of_offsets_survive_restart_and_compaction(
    tmp_path: Path,
) -> None:
    owned = replace(commit(1), owner="User:alice")

    async def main() -> None:
        async with running(tmp_path, Settings(groups_max_per_principal=1)) as driver:
            assert (await submit(driver, owned).result()).errors == [ErrorCode.NONE]
            refused = await submit(driver, replace(owned, group_id="h")).result()
            assert refused.errors == (ErrorCode.POLICY_VIOLATION,)
            assert driver.refusals == {"groups.max.per.principal": 1}
            held = driver.usage.of("User:alice").offset_bytes
            assert driver._store is not None and held > 0
            await driver._store.compact()
        async with running(tmp_path) as driver:
            assert driver.usage.of("User:alice").offset_bytes == held
            assert driver.usage.of("User:alice").groups == 1

    run(main)
