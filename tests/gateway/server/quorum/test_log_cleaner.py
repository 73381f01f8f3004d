"""The tasks beside an observed log: snapshots when due, cleaning, and the image. Their failures do
not stop clients from reading.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import trio
import trio.testing

from gateway.log.files.errors import BelowHighWatermark, DiskFailed, LogFailed, SyncFailed
from gateway.log.files.problem import Problem
from gateway.ports.services import SourceStopped
from gateway.server.logging.logs import Reports
from gateway.server.quorum.image_updater import update_image
from gateway.server.quorum.log_cleaner import LogCleaner
from gateway.sources.snapshot_generator import Written
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.waiting import until_async


@dataclass
class Source:
    """The part of an observed log that these tasks use."""

    committed: int = 10
    deleted: list[list[str] | Exception] = field(default_factory=list)
    published: int = 0
    wake: Callable[[], None] = lambda: None
    listeners: int = 0

    def clean(self, now_ms: int) -> list[str]:
        found = self.deleted.pop(0) if self.deleted else []
        if isinstance(found, Exception):
            raise found
        return found

    def publish(self) -> bool:
        self.published += 1
        return True

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.wake, self.listeners = callback, self.listeners + 1

        def unsubscribe() -> None:
            self.listeners -= 1

        return unsubscribe


@dataclass
class Snapshots:
    results: list[Any]
    problem: str | None = "a metadata transaction is open"
    asked: list[tuple[int, int]] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        self.cancelled.set()

    def due(self, log_bytes: int, now: float) -> bool:
        return bool(self.results)

    def write(
        self, high_watermark: int, log_bytes: int, now: float, state: object
    ) -> Written | None:
        self.asked.append((high_watermark, log_bytes))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return cast("Written | None", result)


@dataclass
class Image:
    """A scripted metadata loader."""

    steps: list[bool | Exception] = field(default_factory=list)
    loaded: bool = True
    log_bytes: int = 100
    problem: Problem | None = None
    lacks: str | None = None
    decoded: list[int] = field(default_factory=list)
    applied: int = 0

    def decode_step(self, high_watermark: int) -> bool:
        self.decoded.append(high_watermark)
        step = self.steps.pop(0) if self.steps else False
        if isinstance(step, Exception):
            raise step
        return step

    def apply_step(self) -> bool:
        self.applied += 1
        return True

    def publish(self) -> Iterator[Exception | None]:
        yield None

    def capture(self) -> None:
        return None

    def take_notices(self) -> list[str]:
        return ["offset 3: not known"] if self.applied == 1 else []


def tended(
    look: Callable[[], Awaitable[None]],
    *,
    source: Source,
    snapshots: Snapshots,
    image: Image | None = None,
) -> tuple[LogCleaner, Reports]:
    """Run the cleaner on a mock clock for the time that ``look`` takes."""
    made: list[Any] = []

    async def main() -> None:
        reports = Reports()
        keeper = LogCleaner(
            cast(Any, snapshots),
            cast(Any, image or Image()),
            cast(Any, source),
            trio.Lock(),
            reports,
        )
        made.append((keeper, reports))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeper.run)
            await look()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(rate=1000))
    return cast("tuple[LogCleaner, Reports]", made[0])


WRITTEN = Written(SnapshotId(10, 1), 500, 3)


def test_due_snapshot_is_written_and_the_log_cleaned_at_once() -> None:
    source, snapshots = Source(deleted=[["a.log"], ["b.log"]]), Snapshots([None, WRITTEN])

    async def look() -> None:
        await until_async(lambda: not source.deleted)

    keeper, reports = tended(look, source=source, snapshots=snapshots)
    assert snapshots.asked == [(10, 100)] * 2
    assert keeper.own_snapshot is not None and keeper.own_snapshot.size == 500
    assert (reports.counts["snapshot not written"], reports.counts["snapshot written"]) == (1, 1)
    assert reports.counts["log cleaned"] == 2
    assert source.published >= 2


def test_no_snapshot_is_written_before_the_image_is_loaded() -> None:
    snapshots = Snapshots([WRITTEN])

    async def look() -> None:
        await trio.sleep(30)

    tended(look, source=Source(), snapshots=snapshots, image=Image(loaded=False))
    assert snapshots.asked == []


def test_exceptions_and_full_disks_are_reported_and_retried() -> None:
    full = DiskFailed("remove", "/x.log", OSError(28, "No space left on device"), "make room")
    source, snapshots = (
        Source(deleted=[full, ["a.log"]]),
        Snapshots([ZeroDivisionError("a bug"), WRITTEN]),
    )

    async def look() -> None:
        await until_async(lambda: not source.deleted and not snapshots.results)
        await trio.sleep(60)

    _, reports = tended(look, source=source, snapshots=snapshots)
    assert reports.counts["log cleaning failed"] == 1
    assert (reports.counts["log not cleaned"], reports.counts["log cleaned"]) == (1, 1)
    assert reports.counts["snapshot written"] == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            SyncFailed("sync", "/x.log", OSError(5, "Input/output error"), "the disk fails"),
            "restart the process",
        ),
        (LogFailed("the log cannot be changed"), "restart the process"),
        (BelowHighWatermark("refused"), "refused"),
    ],
)
def test_log_that_cannot_be_repaired_stops_the_cleaner(error: Exception, told: str) -> None:
    source = Source(deleted=[error])

    async def look() -> None:
        await trio.sleep(30)

    with pytest.raises(ExceptionGroup) as caught:
        tended(look, source=source, snapshots=Snapshots([]))
    stopped: BaseException = caught.value
    while isinstance(stopped, BaseExceptionGroup):
        (stopped,) = stopped.exceptions
    assert isinstance(stopped, SourceStopped) and told in str(stopped)


def test_a_snapshot_under_way_is_cancelled_with_the_task() -> None:
    snapshots = Snapshots([WRITTEN])
    begun = threading.Event()

    def write(high_watermark: int, log_bytes: int, now: float, state: object) -> None:
        begun.set()
        assert snapshots.cancelled.wait(30), "the task waits for the thread"
        snapshots.results.clear()

    async def look() -> None:
        await trio.to_thread.run_sync(begun.wait)

    snapshots.write = write  # type: ignore[method-assign]
    tended(look, source=Source(), snapshots=snapshots)
    assert begun.is_set() and snapshots.results == []


def test_image_follows_the_log_also_after_exceptions_and_problems() -> None:
    image, source, reports = (
        Image(steps=[True, True, False, ZeroDivisionError("a bug"), False]),
        Source(),
        Reports(),
    )

    async def steps(count: int) -> None:
        await until_async(lambda: len(image.decoded) >= count)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(update_image, cast(Any, image), cast(Any, source), reports)
            await steps(3)
            await trio.sleep(100)
            assert image.decoded == [10] * 3, "nothing is to be done before the log moves"
            assert reports.counts["record not applied"] == 1
            source.committed = 12
            source.wake()
            await steps(5)
            await trio.sleep(100)
            assert image.decoded[3:] == [12, 12]
            assert reports.counts["image update failed"] == 1
            image.problem = Problem("/x.log", 5, "gone")
            source.wake()
            await steps(20)  # while there is a problem it is tried again and again
            assert reports.counts["image behind"] == 1, "but told once"
            nursery.cancel_scope.cancel()
        assert source.listeners == 0

    trio.run(main, clock=trio.testing.MockClock(rate=1000))
