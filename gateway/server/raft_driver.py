"""Drives this node's part in its own quorum: what happens goes into ``Raft``, what it wants is done, in its order.

One task steps the core, one thread at a time writes: whatever gathered while the disk was busy is written and synced
together (group commit). What must not leave before something is durable waits here for it. What the core decides, and what
stands in the files, is told in ``gateway.quorum.raft`` and ``gateway.sources.own_log``.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, Protocol

import trio

from gateway.log.errors import LogError
from gateway.ports import SourceStopped
from gateway.quorum.observer import FETCH
from gateway.quorum.raft.effects import (
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
    NotLeading,
    Persist,
    Refused,
    Reply,
    Send,
    ShutDownComplete,
    SnapshotChunk,
    Stop,
    Tell,
    Truncate,
)
from gateway.quorum.raft.events import Answered, Durable, Event, Failed, Gone, Requested, Resign, ShutDown, Tick
from gateway.server.facts import SnapshotProgress
from gateway.server.logs import ERROR_MAX, escape
from gateway.server.quorum_peer import error_of, failure
from gateway.server.raft_bytes import fill
from gateway.server.raft_links import RaftLinks
from gateway.server.upstream_errors import UpstreamError
from kwire.messages.describe_quorum_request import DescribeQuorumRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.handlers.context import Later
    from gateway.quorum.raft.raft import Raft
    from gateway.server.logs import Reports
    from gateway.server.quorum_peer import Connecting
    from gateway.sources.own_log import OwnLog
    from kwire.message import Message

#: Events stepped before others on the loop get their turn.
_EVENTS_MAX: Final = 128
#: How often the high watermark is written down, s: it only says what may be shown before a leader is found.
_REMEMBER_S: Final = 1.0
_WARNINGS: Final = frozenset({"leader-resigns", "nonsense", "snapshot-given-up"})
_AGAIN: Final = "start again: what is on disk is then looked at anew"


class Leadership(Protocol):
    """Who acts for the leader: told on the loop, in order, of what becomes of this node and of what it proposed."""

    def leading(self, epoch: int, start_offset: int) -> None: ...
    def not_leading(self, epoch: int) -> None: ...
    def accepted(self, number: int, end_offset: int) -> None: ...
    def refused(self, number: int, not_leader: bool, reason: str) -> None: ...
    def committed(self, high_watermark: int) -> None: ...
    def confirm(self, then: Callable[[], None]) -> None: ...


class RaftDriver:
    """:meth:`run` is the task. Everything else is called on the loop and returns at once."""

    def __init__(self, raft: Raft, log: OwnLog, how: Connecting, reports: Reports) -> None:
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
        self._work: list[DiskEffect] = []
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
        self._caught_up = trio.Event()
        self._over = trio.Event()

    # --- what others may do -------------------------------------------------------------------------------------------

    @property
    def kraft_version(self) -> int:
        """As in ``gateway.ports.RaftPeers``."""
        return self.raft.kraft_version

    def submit(self, event: Event) -> None:
        """Something happened; the core hears of it in its turn."""
        self._events.append(event)
        self._woken.set()

    def resign(self, epoch: int, reason: str) -> None:
        """This node's controller cannot lead ``epoch`` any longer. Before everything else that waits to happen: what it
        proposed and is not appended yet never will be, so that it can be done by another."""
        self._events.appendleft(Resign(epoch, reason))
        self._woken.set()

    def number(self) -> int:
        """For a request or a proposal: no other has it."""
        return next(self._numbers)

    def ask(self, request: Message, version: int, listener: str, later: Later) -> None:
        """A peer's request; ``later`` gets the answer (``gateway.ports.RaftPeers``)."""
        number = self.number()
        later.on_cancel = lambda: self._gone(number)
        self.question(request, version, listener, later.complete, number)

    def question(
        self, request: Message, version: int, listener: str, tell: Callable[[Message], None], number: int | None = None
    ) -> None:
        """The same for one of this process.

        Only a leader describes the quorum, and a leader that was cut off may not know that another one was elected: a
        majority has to follow it once more first. Nodes find that out by themselves in what they ask each other.
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
        """Hand over, if this node leads; returns when that is done, after ``timeout_s`` at the latest."""
        with trio.move_on_after(timeout_s):
            self.submit(ShutDown(timeout_s))
            await self._over.wait()

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take part for ever. Raises SourceStopped, in a group, when this node cannot go on."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                nursery.start_soon(self._remember)
                self._nursery = nursery
                self._do(self._asked(self.raft.start))
                while True:
                    await self._happen()
                    for _ in range(min(len(self._events), _EVENTS_MAX)):
                        self._step(self._events.popleft())
        finally:
            self._over.set()  # nothing is handed over any more
            with trio.CancelScope(shield=True):
                await self._links.close()

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
        self._do(self._asked(self.raft.step, event))

    def _asked(self, what: Callable[..., list[Effect]], *event: Event) -> list[Effect]:
        """What the core wants done. A bug there ends this node: its state may be half changed, and others can lead."""
        try:
            return what(*event, trio.current_time(), _wall_ms())
        except Exception as error:
            happened = "its start" if not event else type(event[0]).__name__
            self._reports.bug("quorum core failed", error, at=happened)
            raise SourceStopped(f"a bug of this server, at {happened}: {error!r}; {_AGAIN}") from error

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case (
                    Persist() | Append() | Truncate() | BeginSnapshot() | SnapshotChunk() | InstallSnapshot() | AbandonSnapshot()
                ):
                    self._work.append(effect)
                    self._working.set()
                    self._count(effect)
                case Send() | Reply():
                    if effect.after > self._durable:
                        self._held.append(effect)
                    else:
                        self._let_go(effect)
                case Tell():
                    self._say(effect)
                case Stop(reason):
                    raise SourceStopped(reason)
                case ShutDownComplete():
                    self._over.set()
                case _:
                    self._tell(effect)

    def _tell(self, effect: Advance | LeaderChanged | Leading | NotLeading | Accepted | Refused) -> None:
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
                    self._reports.report("leader changed", "info", epoch=epoch, leader_id=leader_id)
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

    def _say(self, told: Tell) -> None:
        # Hosts and reasons may be a peer's words.
        fields = {name: escape(one, limit=ERROR_MAX) if isinstance(one, str) else one for name, one in told.fields.items()}
        self._reports.report(told.event, "warning" if told.event in _WARNINGS else "info", **fields)

    # --- the disk -----------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Write what gathered, sync it once, and tell the core; for ever. A disk that fails ends this node: nobody knows what
        it holds then, and nothing more may be acknowledged."""
        while True:
            await self._working.wait()
            work, self._work, self._working = self._work, [], trio.Event()
            try:
                async with self.disk:
                    outcome = await trio.to_thread.run_sync(self._log.perform, work)
            except LogError as error:
                raise SourceStopped(f"{error}; {_AGAIN}") from None
            except Exception as error:  # a bug of ours; no more is known of what is on disk than after a failure
                self._reports.bug("log of the quorum not written", error)
                raise SourceStopped(f"a bug of this server, at the log: {error!r}; {_AGAIN}") from error
            self._durable = max([self._durable, *(getattr(effect, "token", 0) for effect in work)])
            for event in outcome:
                self.submit(event)
            self.submit(Durable(self._durable))
            held, self._held = self._held, deque()
            for effect in held:
                if effect.after > self._durable:
                    self._held.append(effect)
                else:
                    self._let_go(effect)

    async def _remember(self) -> None:
        """Keep what is committed on disk, now and then, so that a restart can show it before it has found a leader."""
        while True:
            await trio.sleep(_REMEMBER_S)
            if self._log.owes_high_watermark:
                try:
                    async with self.disk:
                        await trio.to_thread.run_sync(self._log.remember)
                except LogError as error:
                    raise SourceStopped(f"{error}; {_AGAIN}") from None

    # --- the wire -----------------------------------------------------------------------------------------------------

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

    def _gone(self, number: int) -> None:
        if self._asking.pop(number, None) is not None:
            self.submit(Gone(number))

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
            elif send.api_key == FETCH:
                self.fetches += 1
            self.submit(Answered(send.number, answer, version))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
