"""The raft driver: how it notifies the controller, and what it reports and measures.

Core and disk are scripted.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from gateway.quorum.effects import (
    AbandonSnapshot,
    Accepted,
    Advance,
    BeginSnapshot,
    InstallSnapshot,
    LeaderChanged,
    Leading,
    NotLeading,
    Refused,
    Report,
    SnapshotChunk,
)
from gateway.quorum.events import (
    Requested,
    Resign,
)
from gateway.quorum.requests import describe_quorum
from tests.gateway.server.harness import run
from tests.gateway.server.scripted_raft import SNAPSHOT, driving, settled
from tests.waiting import PATIENCE_S

# --- the controller


class Acting:
    """Notes its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *what: self.told.append((name, *what))


def test_controller_is_notified_in_the_order_of_effects() -> None:
    async def main() -> None:
        async with driving() as driven:
            acting = driven.driver.leadership = Acting()
            driven.raft.react = lambda event: [
                LeaderChanged(3, 1),
                Leading(3, 10),
                Accepted(1, 11, 13),
                Advance(13),
                Refused(2, True, "why"),
                NotLeading(3),
            ]
            driven.ask()
            await settled()
            assert acting.told == [
                ("on_elected", 3, 10),
                ("accepted", 1, 13),
                ("committed", 13),
                ("refused", 2, True, "why"),
                ("on_resigned", 3),
            ]
            assert driven.log.committed == 13, (
                "clients see it before those who made it are answered"
            )
            assert (driven.log.epoch, driven.log.leader_id) == (3, 1)

    run(main)


def test_describe_quorum_waits_for_a_confirmation_of_leadership() -> None:
    """Other requests go to the core at once."""

    async def main() -> None:
        async with driving() as driven:
            acting = driven.driver.leadership = Acting()
            driven.driver.handle_request(describe_quorum(), 2, "CONTROLLER", lambda answer: None)
            await settled()
            [(name, then)] = acting.told
            assert (name, driven.raft.events) == ("confirm", [])
            then()
            await settled()
            [event] = driven.raft.events
            assert isinstance(event, Requested) and event.message == describe_quorum()
            driven.ask()
            await settled()
            assert len(driven.raft.events) == 2 and len(acting.told) == 1

    run(main)


def test_resignation_is_handled_before_waiting_proposals() -> None:
    """Proposals of a failed controller must not be appended."""

    async def main() -> None:
        async with driving() as driven:
            for _ in range(3):
                driven.ask()
            driven.driver.submit_first(Resign(5, "a bug"))
            await settled()
            assert [type(event) for event in driven.raft.events] == [
                Resign,
                Requested,
                Requested,
                Requested,
            ]

    run(main)


def _changed(effect: LeaderChanged, _event: object) -> list[Any]:
    return [effect]


def test_leader_change_is_reported_once_and_the_last_led_time_is_kept() -> None:
    async def main() -> None:
        async with driving() as driven:
            assert driven.driver.measures.led_until is None
            for leader, epoch in ((2, 1), (2, 1), (-1, 1), (3, 2)):
                driven.raft.react = partial(_changed, LeaderChanged(epoch, leader))
                driven.ask()
                await settled()
            assert driven.reports.counts["leader changed"] == 3
            assert driven.driver.measures.led_until is not None

    run(main)


# --- reports and measures


def test_reports_of_the_core_are_logged_with_texts_of_peers_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        async with driving() as driven:
            driven.reply(
                0,
                Report(
                    "protocol violation",
                    {"sender": "node 2", "reason": "a\nb" + "x" * 1000},
                ),
            )
            driven.ask()
            await settled()
            assert driven.reports.counts["protocol violation"] == 1

    run(main)
    shown = capsys.readouterr().err
    assert "a\\nb" in shown and "x" * 500 not in shown
    assert "warning" in shown


def test_snapshot_download_is_measured() -> None:
    async def main() -> None:
        async with driving() as driven:
            driver = driven.driver
            for effect, name, position, size in (
                (BeginSnapshot(SNAPSHOT), SNAPSHOT.file_name, 0, 0),
                (SnapshotChunk(0, b"12345", 20), SNAPSHOT.file_name, 5, 20),
                (SnapshotChunk(5, b"12345", 20), SNAPSHOT.file_name, 10, 20),
            ):
                driven.reply(0, effect)
                driven.ask()
                await settled()
                assert driver.measures.snapshot == (name, position, size)
            driven.reply(0, AbandonSnapshot(SNAPSHOT))
            driven.ask()
            await settled()
            assert (
                driver.measures.snapshot,
                driver.measures.snapshot_downloads,
                driver.measures.snapshot_loads,
            ) == (
                None,
                1,
                0,
            )
            driven.reply(0, BeginSnapshot(SNAPSHOT), InstallSnapshot(1, SNAPSHOT))
            driven.ask()
            await settled()
            assert (
                driver.measures.snapshot,
                driver.measures.snapshot_downloads,
                driver.measures.snapshot_loads,
            ) == (
                None,
                2,
                1,
            )
            assert driver.measures.fetched_bytes == 10

    run(main)


def test_loaded_returns_at_the_first_high_watermark_or_after_its_timeout() -> None:
    async def main() -> None:
        async with driving() as driven, trio.open_nursery() as nursery:
            with trio.fail_after(PATIENCE_S):
                await driven.driver.loaded(0.05)
            waited = trio.Event()

            async def wait() -> None:
                await driven.driver.loaded(10 * PATIENCE_S)
                waited.set()

            nursery.start_soon(wait)
            await settled()
            assert not waited.is_set()
            driven.reply(0, Advance(1))
            driven.ask()
            with trio.fail_after(PATIENCE_S):
                await waited.wait()

    run(main)
