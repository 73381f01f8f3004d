"""Runs the group coordinator: passes it events and time, writes its records, delivers its results.

A result waits until the records that it acknowledges are in the store; one write serves all records
that came during the write before. ``gateway.handlers`` reads requests and makes responses.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from gateway.base.slices import SLICE_S, Slices
from gateway.base.wall_clock import wall_ms
from gateway.config.config import Config
from gateway.groups import (
    Answer,
    Effect,
    EventTime,
    Failure,
    GroupCoordinator,
    LimitExceeded,
    Persist,
    Record,
    Settings,
    Usage,
)
from gateway.groups.consumer.events import ConsumerHeartbeat, RegexesResolved
from gateway.groups.consumer.group import ResolvedRegex
from gateway.groups.consumer.regex import matching
from gateway.groups.effects import GroupConverted, ResolveRegexes
from gateway.groups.events import CompleteTransaction, Event, JoinGroup, Result
from gateway.groups.request_fault import not_handled
from gateway.log.files.errors import LogError
from gateway.ports.services import Completable
from gateway.server.groups.group_store import GroupStore
from gateway.server.groups.group_topics import GroupTopics
from gateway.server.logging.logs import Reports, escape
from gateway.server.scheduling.sliced_executor import SlicedExecutor
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode

#: Between attempts to open the store again after a write failed, seconds: first and longest.
_RETRY_S: Final = (0.1, 10.0)
#: How long the end of the driver waits for its last records, s.
_LAST_WRITE_S: Final = 10.0
#: Between attempts to rewrite a store that could not be rewritten, seconds.
_COMPACT_RETRY_S: Final = 60.0

#: A request, and the receiver of its result.
_Asked = tuple[Event, Completable[Result]]


class GroupsUnreadableError(Exception):
    """The store can be opened, but holds what this version cannot read. Nothing was changed."""


def settings_of(config: Config) -> Settings:
    """Settings of the group coordinator, from the server's configuration."""
    return Settings(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        consumer_assignors=config.group_consumer_assignors,
        consumer_max_size=config.group_consumer_max_size,
        consumer_migration_policy=config.group_consumer_migration_policy,
        consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        offset_metadata_max=config.offset_metadata_max_bytes,
        commit_timeout_ms=config.offsets_commit_timeout_ms,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        groups_max=config.groups_max,
        groups_max_per_principal=config.groups_max_per_principal,
        members_max=config.groups_members_max,
        members_max_per_principal=config.groups_members_max_per_principal,
        bytes_max=config.groups_bytes_max,
        bytes_max_per_principal=config.groups_bytes_max_per_principal,
        bytes_max_per_group=config.groups_bytes_max_per_group,
        bytes_reserved_per_group=config.groups_bytes_reserved_per_group,
    )


class _Waiting(NamedTuple):
    """Results that wait until a Persist is on disk, until ``deadline`` at most."""

    deadline: float
    answers: list[Answer]


class _Unasked:
    """Takes a result that no client waits for."""

    def complete(self, response: Result, /) -> None:
        """Drop it."""


class GroupDriver:
    """``gateway.ports.services.Groups`` of one coordinator, whose records are in ``store``.

    ``usage`` is that of all coordinators of this node, whose limits are common; ``refusals`` counts
    the requests that each limit refused, by its configuration key. ``threads`` bounds the threads
    that load coordinators.

    Requests are answered with COORDINATOR_LOAD_IN_PROGRESS until ``run`` has read the store, and
    with COORDINATOR_NOT_AVAILABLE after its end. Clients retry both.
    """

    def __init__(
        self,
        store: GroupStore,
        settings: Settings,
        *,
        node_id: int,
        reports: Reports | None = None,
        usage: Usage | None = None,
        refusals: Counter[str] | None = None,
        threads: trio.CapacityLimiter | None = None,
        topics: GroupTopics | None = None,
        wall_ms: Callable[[], int] = wall_ms,
        random_bytes: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        self._store = store
        self._settings = settings
        self._node_id = node_id
        self._reports = Reports() if reports is None else reports
        self._usage = Usage() if usage is None else usage
        self.refusals: Counter[str] = Counter() if refusals is None else refusals
        self._wall_ms = wall_ms
        self._random_bytes = random_bytes
        self._coordinator: GroupCoordinator | None = None
        self._unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._threads = trio.CapacityLimiter(1) if threads is None else threads
        self._topics = GroupTopics() if topics is None else topics
        self._to_resolve: list[ResolveRegexes] = []
        self._resolve = trio.Event()
        self._unwritten: list[Persist] = []
        self._completed: list[CompleteTransaction] = []  # while the coordinator is loaded
        self._written = 0  # number of the newest Persist on disk
        # Number of a Persist -> results that wait until it is on disk; the oldest first.
        self._waiting: dict[int, _Waiting] = {}
        self._waits = trio.Event()
        self._work = trio.Event()
        self._events = SlicedExecutor(self._begin, self._handled, self._unhandled)
        self._sleeper = trio.Event()
        self._timers_done = trio.Event()
        self._wakes_at = -math.inf
        self._compact_not_before = -math.inf

    def coordinator_of(self, group_id: str) -> int:
        """Return this node: it coordinates every group."""
        return self._node_id

    def count_by_state(self) -> Counter[str]:
        """Number of groups in each state, by Kafka's names (``Stable``, ``Empty`` ...)."""
        groups = self._coordinator.groups.values() if self._coordinator is not None else ()
        return Counter(group.state_name for group in groups)

    @property
    def usage(self) -> Usage:
        """The memory that groups hold; empty before the store was read."""
        return self._usage

    def submit(self, event: Event, pending: Completable[Result]) -> None:
        """Handle one request. ``pending.complete(result)`` is called once, possibly before this
        returns.
        """
        if self._coordinator is None:
            if isinstance(event, CompleteTransaction):
                self._completed.append(event)
            self._deliver(pending, not_handled(event, self._settings, self._unavailable))
            return
        self._events.submit((event, pending))

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        """As in ``Groups``; ``partition`` is that of the store."""
        self.submit(CompleteTransaction(producer_id, committed), _Unasked())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then write the records of handled requests, and complete the
        requests that still wait with an error.

        Started when the store has been read. Raises LogError if the store cannot be opened,
        GroupsUnreadableError if it cannot be read.
        """
        try:
            await self._open()
            task_status.started()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._events.run)
                nursery.start_soon(self._keep_time)
                nursery.start_soon(self._keep_writing)
                nursery.start_soon(self._keep_bounds)
                nursery.start_soon(self._keep_resolving)
        finally:
            with trio.CancelScope(shield=True):
                await self._close()

    # Events.

    def _begin(self, asked: _Asked) -> Slices[list[Effect]]:
        assert self._coordinator is not None, "events are dropped with the coordinator"
        event, _ = asked
        # Random bytes are a system call, and only these events make a member id of them.
        makes_id = type(event) is JoinGroup or (
            type(event) is ConsumerHeartbeat and not event.member_id
        )
        moment = self._moment(self._random_bytes()) if makes_id else self._moment()
        return self._coordinator.handle_in_slices(*asked, moment)

    def _handled(self, asked: _Asked, effects: list[Effect], seconds: float) -> None:
        self._apply(effects)
        self._wake_timers()

    def _unhandled(self, asked: _Asked, error: Exception) -> None:
        event, pending = asked
        self._abort(error, event_type=type(event).__name__)
        self._deliver(pending, event.failed(ErrorCode.UNKNOWN_SERVER_ERROR))

    # Effects.

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Persist):
                self._unwritten.append(effect)
                self._work.set()
            elif isinstance(effect, Failure):
                self._reports.bug(
                    "group request failed",
                    effect.error,
                    operation=effect.what,
                    group=escape(effect.group_id),
                )
            elif isinstance(effect, LimitExceeded):
                self._refused(effect)
            elif isinstance(effect, GroupConverted):
                self._reports.report(
                    "group converted", group=escape(effect.group_id), type=effect.type
                )
            elif isinstance(effect, ResolveRegexes):
                self._to_resolve.append(effect)
                self._resolve.set()
            elif effect.after <= self._written:
                self._deliver(effect.asked.token, effect.result)
            else:
                self._wait(effect)

    def _wait(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.after)
        if waiting is None:
            deadline = trio.current_time() + self._settings.commit_timeout_ms / 1000
            waiting = self._waiting[answer.after] = _Waiting(deadline, [])
            self._waits.set()
        waiting.answers.append(answer)

    async def _keep_bounds(self) -> None:
        """Answer requests whose records the replicas do not have in time, as all writes of Kafka's
        coordinator. The records stay, and may be committed later.
        """
        while True:
            await self._waits.wait()
            while self._waiting:
                number, waiting = next(iter(self._waiting.items()))
                if trio.current_time() < waiting.deadline:
                    await trio.sleep_until(waiting.deadline)
                    continue
                del self._waiting[number]
                for answer in waiting.answers:
                    late = answer.asked.event.failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                    self._deliver(answer.asked.token, late)
            self._waits = trio.Event()

    def _deliver(self, pending: Completable[Result], result: Result) -> None:
        try:
            pending.complete(result)
        except Exception as error:  # one response that fails must not fail the other groups
            self._reports.bug("group response failed", error, result=type(result).__name__)

    def _refused(self, effect: LimitExceeded) -> None:
        self.refusals[effect.limit] += 1
        self._reports.report(
            "group limit reached",
            limit=effect.limit, principal=escape(effect.owner), group=escape(effect.group_id),
        )  # fmt: skip

    def _moment(self, random_bytes: bytes = bytes(16)) -> EventTime:
        return EventTime(trio.current_time(), self._wall_ms(), random_bytes)

    # Regular expressions.

    async def _keep_resolving(self) -> None:
        """Compare expressions with topics, a slice at a time between other work."""
        while True:
            await self._resolve.wait()
            self._resolve = trio.Event()
            while self._to_resolve:
                asked = self._to_resolve.pop(0)
                found: dict[str, ResolvedRegex] | None = None
                try:
                    found = await self._resolved(asked)
                except Exception as error:  # the next heartbeat tries again
                    self._reports.bug("group coordinator failed", error, event_type="expressions")
                self.submit(RegexesResolved(asked.group_id, found), _Unasked())

    async def _resolved(self, asked: ResolveRegexes) -> dict[str, ResolvedRegex]:
        began, version = self._wall_ms(), self._topics.version
        work = matching(asked.regexes, self._topics.names())
        while True:
            slice_ends = trio.current_time() + SLICE_S
            try:
                while trio.current_time() < slice_ends:
                    next(work)
            except StopIteration as end:
                matched: Mapping[str, set[str]] = end.value
                break
            await trio.lowlevel.checkpoint()
        found = {}
        for regex, names in matched.items():
            await trio.lowlevel.checkpoint()
            visible = frozenset(name for name in names if asked.may_describe(name))
            found[regex] = ResolvedRegex(visible, version, began)
        return found

    # Time.

    async def _keep_time(self) -> None:
        while True:
            self._sleeper = trio.Event()
            self._wakes_at = self._next_deadline()
            with trio.move_on_at(self._wakes_at):
                await self._sleeper.wait()
            if self._coordinator is not None and trio.current_time() >= self._next_deadline():
                self._timers_done = trio.Event()
                self._events.run_next(
                    self._fire_timers(),
                    self._timers_fired,
                    lambda error: self._abort(error, event_type="timer"),
                )
                await self._timers_done.wait()

    def _fire_timers(self) -> Slices[list[Effect]]:
        assert self._coordinator is not None, "events are dropped with the coordinator"
        effects = yield from self._coordinator.on_timer_in_slices(self._moment())
        return effects

    def _timers_fired(self, effects: list[Effect], seconds: float) -> None:
        self._apply(effects)
        self._timers_done.set()

    def _next_deadline(self) -> float:
        deadline = None if self._coordinator is None else self._coordinator.next_deadline()
        return math.inf if deadline is None else deadline

    def _wake_timers(self) -> None:
        """Wake ``_keep_time`` if a timer is due earlier than it sleeps. If the next one is due
        later it wakes, finds nothing due and sleeps again.
        """
        if self._next_deadline() < self._wakes_at:
            self._sleeper.set()

    # The store.

    async def _keep_writing(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            if self._coordinator is None:
                await self._reload()
                continue
            try:
                await self._write()
            except LogError as error:
                self._reports.report("offset store write failed", error=str(error))
                self._unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
                await self._reload()
            else:
                await self._compact()

    async def _write(self) -> None:
        """Write all new records at once, and deliver the results that waited for them."""
        if not self._unwritten:
            return
        batch = list(self._unwritten)
        # Those of a transaction are a batch of their own.
        for producer, some in itertools.groupby(batch, key=lambda persist: persist.producer):
            records: list[Record] = []
            owners: dict[bytes, str] = {}
            for persist in some:
                records += persist.records
                owners.update(persist.owners)
            await self._store.append(records, self._wall_ms(), owners, producer)
        # Removed only after the write: if it was cancelled, _close writes them.
        del self._unwritten[: len(batch)]
        newest = batch[-1].number
        for number in range(self._written + 1, newest + 1):
            waiting = self._waiting.pop(number, None)
            for answer in () if waiting is None else waiting.answers:
                self._deliver(answer.asked.token, answer.result)
        self._written = newest

    async def _compact(self) -> None:
        now = trio.current_time()
        if now < self._compact_not_before:
            return
        try:
            await self._store.compact()
        except LogError as error:
            self._compact_not_before = now + _COMPACT_RETRY_S
            self._reports.report(
                "offset store rewrite failed", error=str(error), retry_s=_COMPACT_RETRY_S
            )

    async def _open(self) -> None:
        topics, moment = self._topics, self._moment()
        coordinator = GroupCoordinator(
            self._settings, topics=topics, group_configs=topics.configs_of
        )
        try:
            # A marker from now on may be behind what is loaded.
            self._completed = []
            loaded = await self._store.load()
            # In a thread: 100,000 groups take more than a second.
            load = partial(coordinator.load, loaded.records, moment, *loaded[1:])
            effects = await trio.to_thread.run_sync(load, limiter=self._threads)
        except DecodeError as error:
            await self._store.close()
            raise GroupsUnreadableError(
                f"{self._store}: a record cannot be read ({error}); was it written by a newer "
                "version?"
            ) from error
        # On the event loop: other coordinators share it.
        coordinator.usage.join(self._usage)
        self._coordinator, self._written = coordinator, 0
        self._apply(effects)
        self._wake_timers()
        completed, self._completed = self._completed, []
        for event in completed:
            self.submit(event, _Unasked())

    def _abort(self, error: Exception, *, event_type: str) -> None:
        """Drop the coordinator after an exception: its state may be half changed. The next one
        starts from the state on disk.
        """
        self._reports.bug("group coordinator failed", error, event_type=event_type)
        self._unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        self._work.set()

    async def _reload(self) -> None:
        """Load the coordinator again from the store after it was given up.

        Clients were answered with NOT_COORDINATOR, and find this node again by FindCoordinator.
        """
        wait_s, longest_s = _RETRY_S
        while True:
            await self._store.close()
            try:
                await self._open()
            except (LogError, GroupsUnreadableError) as error:
                self._reports.report("offset store unavailable", error=str(error), retry_s=wait_s)
                await trio.sleep(wait_s)
                wait_s = min(wait_s * 2, longest_s)
            else:
                self._reports.report("offset store available")
                return

    def _unload(self, unavailable: ErrorCode, error: ErrorCode) -> None:
        """Drop the coordinator. New requests get ``unavailable``; requests whose records were not
        written get ``error``.
        """
        self._unavailable = unavailable
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            coordinator.usage.leave()
        waiting, self._waiting = self._waiting, {}
        self._unwritten = []
        self._to_resolve = []
        dropped = self._events.cancel_all()
        self._timers_done.set()
        for some in waiting.values():
            for answer in some.answers:
                self._deliver(answer.asked.token, answer.asked.event.failed(error))
        for effect in [] if coordinator is None else coordinator.unload():
            assert isinstance(effect, Answer)
            self._deliver(effect.asked.token, effect.result)
        for event, pending in dropped:
            self._deliver(pending, event.failed(error))

    async def _close(self) -> None:
        """Write the remaining records, complete the requests that still wait, close the store."""
        if self._unwritten:
            # Requests not written by then get an error from _unload. A partition whose node is
            # ending for an internal error may write nothing any more.
            with contextlib.suppress(LogError), trio.move_on_after(_LAST_WRITE_S):
                await self._write()
        self._unload(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
        await self._store.close()
