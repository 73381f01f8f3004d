"""Drives the pure group coordinator: feeds it requests and time, writes what it persists, gives its answers out.

Answers that show something that was written wait until it is on disk; one sync serves everything that came in while the
one before ran. It knows neither requests nor responses: events in, results out.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
import trio

from gateway.config import Config
from gateway.groups import Answer, Effect, Error, GroupCoordinator, Moment, Persist, Settings
from gateway.groups.events import Event, Result
from gateway.log.offset_store import DIRECTORY, OffsetStore
from kwire.errors import DecodeError

#: Between attempts to open the store again after a write failed, seconds: first and longest.
_RETRY_S: Final = (0.1, 10.0)
#: Between attempts to rewrite a store that could not be rewritten, seconds.
_COMPACT_RETRY_S: Final = 60.0

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


class GroupsUnreadableError(Exception):
    """The store can be opened, but holds what this version cannot read. Nothing was changed."""


def settings_of(config: Config) -> Settings:
    """The coordinator's settings out of the server's configuration."""
    return Settings(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        offset_metadata_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )


class GroupDriver:
    """``gateway.ports.Groups``. ``state_dir``: where the store's directory is, or is made.

    Until ``run`` has read the store, requests are answered COORDINATOR_LOAD_IN_PROGRESS, and after its end
    COORDINATOR_NOT_AVAILABLE; clients try both again by themselves.
    """

    def __init__(
        self,
        state_dir: Path,
        settings: Settings,
        *,
        node_id: int,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        dice: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        self._directory = state_dir / DIRECTORY
        self._settings = settings
        self._node_id = node_id
        self._wall_ms = wall_ms
        self._dice = dice
        self._coordinator: GroupCoordinator | None = None
        self._unavailable = Error.COORDINATOR_LOAD_IN_PROGRESS
        self._store: OffsetStore | None = None
        self._threads = trio.CapacityLimiter(1)
        self._unwritten: list[Persist] = []
        self._written = 0  # number of the newest Persist on disk
        self._waiting: dict[int, list[Answer]] = {}  # number of a Persist -> answers that wait for it
        self._work = trio.Event()
        self._sleeper = trio.Event()
        self._wakes_at = -math.inf
        self._compact_not_before = -math.inf

    @property
    def coordinator_node_id(self) -> int:
        """This node: it coordinates every group."""
        return self._node_id

    def count_by_state(self) -> Counter[str]:
        """How many groups there are in each state, by Kafka's names (``Stable``, ``Empty`` ...)."""
        groups = self._coordinator.groups.values() if self._coordinator is not None else ()
        return Counter(group.state.value for group in groups)

    def submit(self, event: Event, later: Any) -> None:
        """Carry out one request; ``later.complete(result)`` is called once, perhaps before this returns."""
        if self._coordinator is None:
            self._deliver(later, event.failed(self._unavailable))
            return
        try:
            effects = self._coordinator.handle(event, later, self._moment())
        except Exception:
            self._break_off(event=type(event).__name__)
            self._deliver(later, event.failed(Error.UNKNOWN_SERVER_ERROR))
            return
        self._carry_out(effects)
        self._rearm()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then everything that was carried out is written, and who still waits is told.

        Raises StoreLockedError and OSError if the store cannot be opened, GroupsUnreadableError if it cannot be read.
        """
        try:
            await self._open(rewrite=False)
            task_status.started()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_time)
                nursery.start_soon(self._keep_writing)
        finally:
            with trio.CancelScope(shield=True):
                await self._close()

    # Effects.

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self._unwritten.append(effect)
                self._work.set()
            elif effect.after <= self._written:
                self._deliver(effect.asked.token, effect.result)
            else:
                self._waiting.setdefault(effect.after, []).append(effect)

    def _deliver(self, later: Any, result: Result) -> None:
        try:
            later.complete(result)
        except Exception:  # one answer that cannot be made must not end the coordination of everybody else
            _log.exception("group_answer_failed", result=type(result).__name__)

    def _moment(self) -> Moment:
        return Moment(trio.current_time(), self._wall_ms(), self._dice())

    # Time.

    async def _keep_time(self) -> None:
        while True:
            self._sleeper = trio.Event()
            self._wakes_at = self._next_deadline()
            with trio.move_on_at(self._wakes_at):
                await self._sleeper.wait()
            if self._coordinator is not None and trio.current_time() >= self._next_deadline():
                try:
                    effects = self._coordinator.on_timer(self._moment())
                except Exception:
                    self._break_off(event="timer")
                    continue
                self._carry_out(effects)
                await trio.lowlevel.checkpoint()

    def _next_deadline(self) -> float:
        deadline = None if self._coordinator is None else self._coordinator.next_deadline()
        return math.inf if deadline is None else deadline

    def _rearm(self) -> None:
        """Wake the sleeper if something is due earlier than it knows. Later is no matter: it looks again when it wakes."""
        if self._next_deadline() < self._wakes_at:
            self._sleeper.set()

    # The disk.

    async def _keep_writing(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            if self._coordinator is None:
                await self._begin_again()
                continue
            try:
                await self._write()
            except OSError as error:
                _log.error("group_store_write_failed", error=str(error))
                self._give_up(Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_COORDINATOR)
                await self._begin_again()
            else:
                await self._compact()

    async def _write(self) -> None:
        """Write what there is with one sync, and release the answers that waited for it."""
        if not self._unwritten:
            return
        assert self._store is not None
        store, batch = self._store, list(self._unwritten)
        records = [record for persist in batch for record in persist.records]
        await self._in_thread(lambda: store.append(records, self._wall_ms()))
        # Only now: a cancellation on the way in leaves it for the last write.
        del self._unwritten[: len(batch)]
        newest = batch[-1].number
        for number in range(self._written + 1, newest + 1):
            for answer in self._waiting.pop(number, ()):
                self._deliver(answer.asked.token, answer.result)
        self._written = newest

    async def _compact(self) -> None:
        store, now = self._store, trio.current_time()
        if store is None or not store.wants_compaction or now < self._compact_not_before:
            return
        try:
            await self._in_thread(store.compact)
        except OSError as error:
            self._compact_not_before = now + _COMPACT_RETRY_S
            _log.warning("group_store_rewrite_failed", error=str(error), retry_s=_COMPACT_RETRY_S)

    async def _open(self, *, rewrite: bool) -> None:
        store = await self._in_thread(lambda: OffsetStore(self._directory, rewrite=rewrite))
        for problem in store.problems:
            _log.warning("group_store_problem", problem=problem)
        coordinator = GroupCoordinator(self._settings)
        try:
            effects = coordinator.load(store.records(), self._moment())
        except DecodeError as error:
            store.close()
            raise GroupsUnreadableError(
                f"{self._directory}: a record cannot be read ({error}); was it written by a newer version?"
            ) from error
        self._store, self._coordinator, self._written = store, coordinator, 0
        self._carry_out(effects)
        self._rearm()

    def _break_off(self, *, event: str) -> None:
        """A mistake of ours in the coordinator: what it knows is not to be trusted, what is on disk is."""
        _log.exception("group_coordinator_failed", event_type=event)
        self._give_up(Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_COORDINATOR)
        self._work.set()

    async def _begin_again(self) -> None:
        """The coordinator was given up: what it knew was more than what is on disk, or wrong.

        As if it had moved from this server to this server: everybody was told to look for it, and it begins again with what
        is on disk, in a new file.
        """
        wait_s, longest_s = _RETRY_S
        while True:
            await self._close_store()
            try:
                await self._open(rewrite=True)
            except (OSError, GroupsUnreadableError) as error:
                _log.error("group_store_unusable", error=str(error), retry_s=wait_s)
                await trio.sleep(wait_s)
                wait_s = min(wait_s * 2, longest_s)
            else:
                _log.info("group_store_usable_again")
                return

    def _give_up(self, unavailable: Error, error: Error) -> None:
        """Forget the coordinator. New requests get ``unavailable``; answers that will not be kept become ``error``."""
        self._unavailable = unavailable
        coordinator, self._coordinator = self._coordinator, None
        waiting, self._waiting = self._waiting, {}
        self._unwritten = []
        for answers in waiting.values():
            for answer in answers:
                self._deliver(answer.asked.token, answer.asked.event.failed(error))
        for effect in [] if coordinator is None else coordinator.unload():
            assert isinstance(effect, Answer)
            self._deliver(effect.asked.token, effect.result)

    async def _close(self) -> None:
        """Write what is left, tell those who still wait, and let the store go."""
        if self._store is not None and self._unwritten:
            with contextlib.suppress(OSError):  # the answers that waited for it say so
                await self._write()
        self._give_up(Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR)
        await self._close_store()

    async def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await self._in_thread(store.close)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await trio.to_thread.run_sync(work, limiter=self._threads)
