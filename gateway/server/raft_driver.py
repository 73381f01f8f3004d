"""Drives a node of a quorum, voter or observer: events go into ``Raft``, its effects are performed
in their order.

One task steps the core, one thread at a time writes: whatever gathered while the disk was busy is
written and synced together (group commit). What must not leave before something is durable waits
here for it. A voter whose disk or core fails ends the process, because what it holds is not known
any more and others rely on it. No other node relies on an observer: its core starts again from what the
disk holds (``restart``). The rules are in ``gateway.quorum``, the files in
``gateway.sources.quorum_log``.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.log.errors import LogError
from gateway.ports import SourceStopped
from gateway.quorum.effects import (
    AbandonSnapshot,
    Accepted,
    Advance,
    Append,
    BeginSnapshot,
    DiskEffect,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    Leading,
    LearnClusterId,
    NotLeading,
    Persist,
    Refused,
    Reply,
    Report,
    Send,
    ShutDownComplete,
    SnapshotChunk,
    Stop,
    Truncate,
)
from gateway.quorum.events import (
    Answered,
    Cancelled,
    Durable,
    Event,
    Failed,
    Installed,
    NotInstalled,
    Requested,
    Resign,
    ShutDown,
    Tick,
)
from gateway.server.log_events import core_event
from gateway.server.log_failures import may_pass, stopped_by
from gateway.server.logs import ERROR_MAX, escape
from gateway.server.management.facts import SnapshotProgress
from gateway.server.quorum_peer import error_of, failure
from gateway.server.raft_bytes import fill
from gateway.server.raft_links import RaftLinks
from gateway.server.upstream_errors import UpstreamError
from gateway.sources.quorum_log import BatchesRefused
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.fetch_request import FetchRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.handlers.context import PendingResponse
    from gateway.quorum.raft import Raft
    from gateway.server.logs import Reports
    from gateway.server.quorum_peer import Connecting
    from gateway.sources.quorum_log import QuorumLog
    from kwire.message import Message

#: Events stepped before others on the loop get their turn.
_EVENTS_MAX: Final = 128
#: How often the high watermark is written down, s: it only says what may be shown before a leader
#: is found.
_REMEMBER_S: Final = 1.0
#: An observer's quorum that has not answered for so long is out of reach, s. An election takes two
#: to four.
LOST_AFTER_S: Final = 10.0
#: How often an observer looks at whether its leader still answers, s.
_LOOK_S: Final = 0.25
#: Before an observer starts its core again after a failure of the disk, or a bug, s.
_RESTART_DELAY_S: Final = 1.0
_AGAIN: Final = "start again: what is on disk is then looked at anew"


class _CoreFailed(Exception):
    """The core of an observer raised: its state may be half changed."""


class Leadership(Protocol):
    """Who acts for the leader: told on the loop, in order, of what becomes of this node and of what
    it proposed.
    """

    def leading(self, epoch: int, start_offset: int) -> None: ...
    def not_leading(self, epoch: int) -> None: ...
    def accepted(self, number: int, end_offset: int) -> None: ...
    def refused(self, number: int, not_leader: bool, reason: str) -> None: ...
    def committed(self, high_watermark: int) -> None: ...
    def confirm(self, then: Callable[[], None]) -> None: ...


class RaftDriver:
    """:meth:`run` is the task. Everything else is called on the loop and returns at once."""

    def __init__(
        self,
        raft: Raft,
        log: QuorumLog,
        how: Connecting,
        reports: Reports,
        restart: Callable[[float, int], Raft] | None = None,
    ) -> None:
        """``restart``: makes an observer's core anew from the disk, in a thread, given the time and
        the wall clock in ms.

        Raises LogError. None for a voter.
        """
        self.raft = raft
        self.disk = trio.Lock()  #: held by who changes the log
        self.leadership: Leadership | None = None
        self._log = log
        self._reports = reports
        self._links = RaftLinks(how)
        self._events: deque[Event] = deque()
        self._woken = trio.Event()
        self._numbers = itertools.count(1)
        self._asking: dict[int, Callable[[Message], None]] = {}
        self._work: list[DiskEffect | Advance] = []
        self._working = trio.Event()
        self._held: deque[Send | Reply] = deque()
        self._durable = 0
        self.led_until: float | None = None  #: when there last was a leader, on the loop's clock, s
        self.problem: str | None = None  #: why the last request to another node failed
        self.request_errors: Counter[str] = Counter()
        self.fetches = 0
        self.fetched_bytes = 0
        self.snapshot_downloads = 0
        self.snapshot_loads = 0
        self.snapshot: SnapshotProgress | None = None
        self.last_caught_up_at: float | None = (
            None  #: when the log last was where the leader's high watermark was, s
        )
        self.last_answer_at: float | None = None  #: when a leader last answered as one, s
        self.disk_problem: str | None = (
            None  #: why an observer's log could not be written, while that is so
        )
        self.fetched_before = 0  # records fetched by the cores before this one
        self._restart = restart
        self._failure = ""  # why the core is to start again
        self._caught_up = trio.Event()
        self._over = trio.Event()

    # --- what others may do
    # -------------------------------------------------------------------------------------------

    @property
    def kraft_version(self) -> int:
        """As in ``gateway.ports.RaftPeers``."""
        return self.raft.kraft_version

    def submit(self, event: Event) -> None:
        """Something happened; the core hears of it in its turn."""
        self._events.append(event)
        self._woken.set()

    def resign(self, epoch: int, reason: str) -> None:
        """This node's controller cannot lead ``epoch`` any longer. Before everything else that
        waits to happen: what it proposed and is not appended yet never will be, so that it can be
        done by another.
        """
        self._events.appendleft(Resign(epoch, reason))
        self._woken.set()

    def number(self) -> int:
        """For a request or a proposal: no other has it."""
        return next(self._numbers)

    def ask(self, request: Message, version: int, listener: str, pending: PendingResponse) -> None:
        """A peer's request; ``pending`` gets the answer (``gateway.ports.RaftPeers``)."""
        number = self.number()
        pending.on_cancel = lambda: self._cancelled(number)
        self.question(request, version, listener, pending.complete, number)

    def question(
        self,
        request: Message,
        version: int,
        listener: str,
        tell: Callable[[Message], None],
        number: int | None = None,
    ) -> None:
        """The same for one of this process.

        Only a leader describes the quorum, and a leader that was cut off may not know that another
        one was elected: a majority has to follow it once more first. Nodes find that out by
        themselves in what they ask each other.
        """
        number = self.number() if number is None else number
        self._asking[number] = tell
        requested = Requested(number, request, version, listener)
        if isinstance(request, DescribeQuorumRequest) and self.leadership is not None:
            self.leadership.confirm(lambda: self.submit(requested))
        else:
            self.submit(requested)

    async def loaded(self, timeout_s: float) -> None:
        """Return when the end of the committed log is known, or after ``timeout_s``."""
        with trio.move_on_after(timeout_s):
            await self._caught_up.wait()

    async def shut_down(self, timeout_s: float) -> None:
        """Hand over, if this node leads; returns when that is done, after ``timeout_s`` at the
        latest.
        """
        with trio.move_on_after(timeout_s):
            self.submit(ShutDown(timeout_s))
            await self._over.wait()

    # --- the loop
    # -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take part for ever. Raises SourceStopped, in a group, when this node cannot go on."""
        try:
            while True:
                await self._live()
                await self._start_again()
        finally:
            self._over.set()  # nothing is handed over any more
            with trio.CancelScope(shield=True):
                await self._links.close()

    async def _live(self) -> None:
        """One core, from its start on; returns when an observer's is to start again."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._write)
            nursery.start_soon(self._watch if self._restart is not None else self._remember)
            try:
                self._do(self._asked(self.raft.start))
                while True:
                    await self._happen()
                    for _ in range(min(len(self._events), _EVENTS_MAX)):
                        self._step(self._events.popleft())
            except _CoreFailed as failed:
                self._fail(str(failed))

    def _fail(self, reason: str) -> None:
        """An observer's core is given up, with everything that was on its way for it."""
        self._failure = reason
        self._nursery.cancel_scope.cancel()

    async def _start_again(self) -> None:
        """A new core from what the disk holds, once that can be read. Raises SourceStopped."""
        assert self._restart is not None, "a voter does not start again in the same process"
        self.fetched_before += self.raft.measures.fetched_records
        while True:
            for waiting in (self._events, self._work, self._held):
                waiting.clear()
            self._durable = 0
            self._working = trio.Event()
            self.snapshot = None
            await trio.sleep(_RESTART_DELAY_S)
            try:
                async with self.disk:
                    self.raft = await trio.to_thread.run_sync(
                        self._restart, trio.current_time(), _wall_ms()
                    )
                    self._log.publish()
                return
            except LogError as error:
                self._log_failed(error)

    def _log_failed(self, error: LogError) -> None:
        """A full disk may have space again; what else is wrong with a log ends the process. Raises
        SourceStopped.
        """
        if self._restart is None or not may_pass(error):
            raise (
                stopped_by(error)
                if self._restart is not None
                else SourceStopped(f"{error}; {_AGAIN}")
            ) from None
        refused = isinstance(error, BatchesRefused)
        self.request_errors["refused" if refused else "disk"] += 1
        self.disk_problem = str(error)
        self._reports.report("log not written", error=escape(str(error), limit=ERROR_MAX))

    async def _watch(self) -> None:
        """An observer finds out that its leader does not answer any more by the time alone."""
        while True:
            await trio.sleep(_LOOK_S)
            self._look_at_the_time()

    def _look_at_the_time(self) -> None:
        """Does the leader still answer, and is the log where the leader's is?"""
        now, log, raft = trio.current_time(), self._log, self.raft
        if raft.leader_answered_at is not None and raft.leader_answered_at != self.last_answer_at:
            self.last_answer_at = raft.leader_answered_at
            self.problem = None
        last = self.last_answer_at
        log.in_touch = self.disk_problem is None and last is not None and now - last <= LOST_AFTER_S
        if log.in_touch and 0 <= raft.leader_high_watermark <= log.committed:
            log.caught_up = True
            self._caught_up.set()
            self.last_caught_up_at = now

    async def _happen(self) -> None:
        """Wait until there is an event; the passing of time is one."""
        if self._events:
            await trio.lowlevel.checkpoint()
            return
        self._woken = trio.Event()
        with trio.move_on_at(self.raft.deadline):
            await self._woken.wait()
        if trio.current_time() >= self.raft.deadline:
            self._events.append(Tick())

    def _step(self, event: Event) -> None:
        if self._restart is None:
            self._do(self._asked(self.raft.step, event))
            return
        measures = self.raft.measures
        before = measures.protocol_violations
        self._do(self._asked(self.raft.step, event))
        if measures.protocol_violations > before:
            self.request_errors["unusable"] += measures.protocol_violations - before
        self._look_at_the_time()

    def _asked(self, what: Callable[..., list[Effect]], *event: Event) -> list[Effect]:
        """What the core wants done. A bug there ends this node: its state may be half changed, and
        others can lead.
        """
        try:
            return what(*event, trio.current_time(), _wall_ms())
        except Exception as error:
            happened = "its start" if not event else type(event[0]).__name__
            self._reports.bug("quorum core failed", error, at=happened)
            if self._restart is not None:
                self.problem = f"a bug of this server: {error!r}"
                raise _CoreFailed(self.problem) from error
            raise SourceStopped(
                f"a bug of this server, at {happened}: {error!r}; {_AGAIN}"
            ) from error

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case (
                    Persist()
                    | Append()
                    | Truncate()
                    | BeginSnapshot()
                    | SnapshotChunk()
                    | InstallSnapshot()
                    | AbandonSnapshot()
                    | LearnClusterId()
                ):
                    self._work.append(effect)
                    self._working.set()
                    self._count(effect)
                case Advance() if (
                    self._restart is not None
                ):  # an observer shows what it has written down as committed
                    self._work.append(effect)
                    self._working.set()
                case Send() | Reply():
                    if effect.after > self._durable:
                        self._held.append(effect)
                    else:
                        self._let_go(effect)
                case Report():
                    self._say(effect)
                case Stop(reason):
                    raise SourceStopped(reason)
                case ShutDownComplete():
                    self._over.set()
                case _:
                    self._tell(effect)

    def _tell(
        self, effect: Advance | LeaderChanged | Leading | NotLeading | Accepted | Refused
    ) -> None:
        acting = self.leadership
        match effect:
            case Advance(high_watermark):
                self._log.commit(high_watermark)
                self._caught_up.set()
                if acting is not None:
                    acting.committed(high_watermark)
            case LeaderChanged(epoch, leader_id):
                if self._log.leader_id >= 0:
                    self.led_until = trio.current_time()
                if (epoch, leader_id) != (self._log.epoch, self._log.leader_id):
                    self._log.lead(epoch, leader_id)
                    self._reports.report("leader changed", epoch=epoch, leader_id=leader_id)
            case _ if acting is None:
                pass
            case Leading(epoch, start_offset):
                acting.leading(epoch, start_offset)
            case NotLeading(epoch):
                acting.not_leading(epoch)
            case Accepted(number, _, end_offset):
                acting.accepted(number, end_offset)
            case Refused(number, not_leader, reason):
                acting.refused(number, not_leader, reason)

    def _count(self, effect: DiskEffect) -> None:
        match effect:
            case BeginSnapshot(snapshot_id):
                self.snapshot_downloads += 1
                self.snapshot = SnapshotProgress(snapshot_id.file_name, 0, 0)
            case SnapshotChunk(position, data, size) if self.snapshot is not None:
                self.fetched_bytes += len(data)
                self.snapshot = SnapshotProgress(self.snapshot.name, position + len(data), size)
            case AbandonSnapshot():
                self.snapshot = None
            case InstallSnapshot():
                self.snapshot_loads += 1
                self.snapshot = None
            case Append(_, _, data) if self.raft.leader_id != self.raft.node_id:
                self.fetched_bytes += len(data)

    def _say(self, told: Report) -> None:
        # Hosts and reasons may be a peer's words.
        fields = {
            name: escape(one, limit=ERROR_MAX) if isinstance(one, str) else one
            for name, one in told.fields.items()
        }
        self._reports.report(core_event(told.event), **fields)
        if told.event == "access denied":
            self.problem = str(fields["reason"])
        elif told.event == "protocol violation" or (
            told.event == "request refused" and self.problem is None
        ):
            # That other nodes do not lead is no news where the leader is known not to answer.
            self.problem = f"{fields['sender']}: {fields.get('reason', fields.get('error'))}"

    # --- the disk
    # -----------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Write what gathered, sync it once, and tell the core; for ever.

        A disk that fails ends a voter: what it holds is not known then, and nothing more may be
        acknowledged.
        """
        while True:
            await self._working.wait()
            work, self._work, self._working = self._work, [], trio.Event()
            try:
                decision = await self._perform(work)
            except LogError as error:
                self._log_failed(error)
                self._fail(str(error))
                return
            except (
                Exception
            ) as error:  # a bug; no more is known of what is on disk than after a failure
                self._reports.bug("log write failed", error)
                if self._restart is not None:
                    self._fail(f"a bug of this server: {error!r}")
                    return
                raise SourceStopped(
                    f"a bug of this server, at the log: {error!r}; {_AGAIN}"
                ) from error
            self._durable = max([self._durable, *(getattr(effect, "token", 0) for effect in work)])
            for event in decision:
                self.submit(event)
            self.submit(Durable(self._durable))
            held, self._held = self._held, deque()
            for effect in held:
                if effect.after > self._durable:
                    self._held.append(effect)
                else:
                    self._let_go(effect)

    async def _perform(
        self, work: Sequence[DiskEffect | Advance]
    ) -> list[Installed | NotInstalled]:
        """In a thread, because a disk may take its time. Raises LogError."""
        async with self.disk:
            try:
                decision = await trio.to_thread.run_sync(self._log.perform, work)
            finally:
                if self._restart is not None:
                    self._log.publish()
        if self._restart is not None:
            self.disk_problem = None
            self._look_at_the_time()
        return decision

    async def _remember(self) -> None:
        """Keep what is committed on disk, now and then, so that a restart can show it before it has
        found a leader.
        """
        while True:
            await trio.sleep(_REMEMBER_S)
            if self._log.owes_high_watermark:
                try:
                    async with self.disk:
                        await trio.to_thread.run_sync(self._log.write_high_watermark)
                except LogError as error:
                    raise SourceStopped(f"{error}; {_AGAIN}") from None

    # --- the wire
    # -----------------------------------------------------------------------------------------------------

    def _let_go(self, effect: Send | Reply) -> None:
        if isinstance(effect, Send):
            self._nursery.start_soon(self._send, effect)
            return
        tell = self._asking.pop(effect.number, None)
        if tell is None:
            return
        if effect.read is not None:
            try:
                fill(effect, self._log)
            except (OSError, LogError) as error:
                raise SourceStopped(f"the log cannot be read: {error}") from None
        tell(effect.message)

    def _cancelled(self, number: int) -> None:
        if self._asking.pop(number, None) is not None:
            self.submit(Cancelled(number))

    async def _send(self, send: Send) -> None:
        try:
            version, answer = await self._links.ask(send)
        except UpstreamError as error:
            self.request_errors[error.kind] += 1
            self.problem = str(error)
            self.submit(Failed(send.number, failure(error)))
        else:
            code = error_of(answer)
            if code is not None:
                self.request_errors[code] += 1
            elif send.api_key == FetchRequest.API_KEY:
                self.fetches += 1
            self.submit(Answered(send.number, answer, version))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
