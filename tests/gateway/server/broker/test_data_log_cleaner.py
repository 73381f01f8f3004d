"""The task that compacts logs: it finds what is due, and leaves alone what cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from gateway.log.files.disk import Disk
from gateway.server.broker.cleaner_settings import CleanerSettings, cleaner_settings
from gateway.server.broker.data_log_cleaner import DataLogCleaner
from kwire.cluster import Image
from kwire.cluster.image import BROKER_RESOURCE
from tests.gateway.sources.compactions import MEMORY, SMALL, keyed
from tests.gateway.sources.data_partitions import appended, led, settle
from tests.gateway.sources.test_compaction import shown
from tests.waiting import until_async

SETTINGS = CleanerSettings(0, MEMORY)


@dataclass
class Reports:
    """Keeps the names of the events that were reported."""

    events: list[str] = field(default_factory=list)

    def report(self, event: str, **fields: Any) -> None:
        self.events.append(event)


@dataclass
class Replicas:
    partitions: list[Any]
    cleaner_settings: CleanerSettings | None = SETTINGS


def filled(directory: Path) -> Any:
    """A partition whose jobs are performed at once."""
    one = led(directory, SMALL, wake=lambda partition: settle(partition))
    for number in range(20):
        appended(one, keyed((b"k%d" % (number % 2), b"%d" % number)))
    return one


def test_logs_that_are_due_are_compacted_and_reported(tmp_path: Path) -> None:
    async def check() -> None:
        ones = [filled(tmp_path / name / "t-0") for name in "ab"]
        reports = Reports()
        cleaner = DataLogCleaner(Replicas(ones), Disk(fsync=False), reports)  # type: ignore[arg-type]
        assert cleaner.looked_at is None
        assert await cleaner.clean_once(10**6)
        assert cleaner.max_dirty_ratio == 1
        assert not await cleaner.clean_once(10**6)
        assert cleaner.looked_at is not None and cleaner.max_dirty_ratio == 0
        assert reports.events == ["partition compacted"] * 2
        assert all(len(shown(one)) < 5 for one in ones)
        for one in ones:
            one.close()

    trio.run(check)


def test_log_that_cannot_be_read_is_reported_once_and_stays(tmp_path: Path) -> None:
    async def check() -> None:
        damaged, whole = filled(tmp_path / "a" / "t-0"), filled(tmp_path / "b" / "t-0")
        first = min((tmp_path / "a" / "t-0").glob("*.log"))
        content = bytearray(first.read_bytes())
        content[-1] ^= 1
        with first.open("r+b") as file:
            file.write(content)
        reports = Reports()
        replicas = Replicas([damaged, whole])
        cleaner = DataLogCleaner(replicas, Disk(fsync=False), reports)  # type: ignore[arg-type]
        assert await cleaner.clean_once(10**6)
        assert sorted(reports.events) == ["partition compacted", "partition not compacted"]
        assert not await cleaner.clean_once(10**6)
        assert first.read_bytes() == content
        assert cleaner.uncleanable_count == 1
        damaged.close()
        whole.close()

    trio.run(check)


def test_task_waits_for_an_image_and_goes_on_for_ever(tmp_path: Path) -> None:
    async def check() -> None:
        one = filled(tmp_path / "t-0")
        cleaner = DataLogCleaner(Replicas([one]), Disk(fsync=False), Reports())  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cleaner.run)
            await until_async(lambda: len(shown(one)) < 5)
            nursery.cancel_scope.cancel()
        one.close()

    trio.run(check)


def test_settings_are_those_of_the_broker_then_of_all_then_the_defaults() -> None:
    image = Image()
    assert cleaner_settings(image, 1) == CleanerSettings(15_000, 134_217_728)
    image.configs = {
        (BROKER_RESOURCE, ""): {
            "log.cleaner.backoff.ms": "7",
            "log.cleaner.dedupe.buffer.size": "9",
        },
        (BROKER_RESOURCE, "1"): {"log.cleaner.backoff.ms": "5"},
    }
    assert cleaner_settings(image, 1) == CleanerSettings(5, 9)
