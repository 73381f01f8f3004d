"""Drives the raft core of a quorum's node, voter or observer: passes events into ``Raft`` and
performs its effects in order.

One task steps the core; one thread at a time writes. Effects that gather while the disk is busy are
written and synced together, and messages wait until the effects that they depend on are durable
(``raft_write_queue``). A failure of a voter's disk or core ends the process: other nodes rely on
what it has acknowledged, and what it holds is unknown. No node relies on an observer, so its driver
makes a new core from the state on disk (``restart``).

The rules are in ``gateway.quorum``, the files in ``gateway.sources.quorum_log``. Kafka's
counterpart is ``KafkaRaftClientDriver``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.base.wall_clock import wall_ms
from gateway.log.files.errors import LogError
from gateway.ports.services import SourceStopped
from gateway.quorum.effects import (
    Accepted,
    Advance,
    DiskEffect,
    Effect,
    LeaderChanged,
    Leading,
    NotLeading,
    Refused,
    Reply,
    Report,
    Send,
    ShutDownComplete,
    Stop,
)
from gateway.quorum.events import (
    Durable,
    Event,
    ImageLacks,
    Installed,
    NotInstalled,
    Requested,
    Resign,
    ShutDown,
)
from gateway.server.logging.logs import ERROR_MAX, escape
from gateway.server.quorum.leadership import Leadership, notify
from gateway.server.quorum.log_failures import RESTART, may_pass, stopped_by
from gateway.server.quorum.observer_watch import check_leader
from gateway.server.quorum.raft_driver_metrics import RaftDriverMetrics
from gateway.server.quorum.raft_event_queue import RaftEventQueue
from gateway.server.quorum.raft_messages import RaftMessages
from gateway.server.quorum.raft_write_queue import WriteQueue
from gateway.sources.quorum_log import BatchesRefused
from kwire.messages.describe_quorum_request import DescribeQuorumRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.ports.pending_response import PendingResponse
    from gateway.quorum.raft import Raft
    from gateway.server.logging.logs import Reports
    from gateway.server.node_client.settings import ConnectionSettings
    from gateway.sources.quorum_log import QuorumLog
    from kwire.message import Message

#: Interval at which a voter stores its high watermark, s. A restarted node serves records up to the
#: stored one before it has found a leader.
_REMEMBER_S: Final = 1.0
#: Interval at which an observer checks whether its leader still answers, s.
_CHECK_S: Final = 0.25
#: Delay before an observer makes a new core after a failure of the disk, or a bug, s.
_RESTART_DELAY_S: Final = 1.0


class _CoreFailed(Exception):
    """The core of an observer raised: its state may be half changed."""


class RaftDriver:
    """Feeds events to one Raft core and performs its effects in order. :meth:`run` is the task; the
    other methods never block.
    """

    def __init__(
        self,
        raft: Raft,
        log: QuorumLog,
        settings: ConnectionSettings,
        reports: Reports,
        restart: Callable[[float, int], Raft] | None = None,
    ) -> None:
        """``restart`` makes a new core of an observer from the state on disk, in a thread, given
        the times of the event loop, s, and the wall clock, ms. Raises LogError. None for a voter.
        """
        self.raft = raft
        self.disk = trio.Lock()  #: held by a task whose thread changes the log
        self.leadership: Leadership | None = None
        self.measures = RaftDriverMetrics()
        self._log = log
        self._reports = reports
        self._events = RaftEventQueue()
        self._writes = WriteQueue()
        self._messages = RaftMessages(log, settings, self.measures, self._events)
        self._restart = restart
        self._caught_up = trio.Event()
        self._over = trio.Event()

    # --- for other parts of the server

    @property
    def kraft_version(self) -> int:
        """As in ``gateway.ports.services.RaftPeers``."""
        return self.raft.kraft_version

    def submit(self, event: Event) -> None:
        """Queue an event for the core."""
        self._events.add(event)

    def submit_first(self, event: Resign | ImageLacks) -> None:
        """Queue an event that ends this node's leadership, ahead of all others.

        Proposals that wait in the queue are then refused, not appended, and the next leader can
        decide on their requests again.
        """
        self._events.add_first(event)

    def number(self) -> int:
        """A unique number for a request or a proposal."""
        return self._messages.number()

    def ask(self, request: Message, version: int, listener: str, pending: PendingResponse) -> None:
        """As in ``gateway.ports.services.RaftPeers``."""
        number = self.number()
        pending.on_cancel = lambda: self._messages.cancel(number)
        self.handle_request(request, version, listener, pending.complete, number)

    def handle_request(
        self,
        request: Message,
        version: int,
        listener: str,
        on_response: Callable[[Message], None],
        number: int | None = None,
    ) -> None:
        """Pass a request of a peer, or of this process, to the core. ``on_response`` gets its
        response.

        DescribeQuorum is a read that only the leader answers, and a leader that was cut off may not
        know yet that another one was elected. So a majority has to confirm the leadership first, as
        for a linearizable read (Raft, section 8). The other requests carry an epoch, by which the
        peers find out by themselves.
        """
        number = self.number() if number is None else number
        self._messages.received(number, on_response)
        requested = Requested(number, request, version, listener)
        if isinstance(request, DescribeQuorumRequest) and self.leadership is not None:
            self.leadership.confirm(lambda: self.submit(requested))
        else:
            self.submit(requested)

    async def loaded(self, timeout_s: float) -> None:
        """Return when the high watermark is known, or after ``timeout_s``."""
        with trio.move_on_after(timeout_s):
            await self._caught_up.wait()

    async def shut_down(self, timeout_s: float) -> None:
        """Hand over leadership, if this node leads. Returns when that is done, or after
        ``timeout_s``.
        """
        with trio.move_on_after(timeout_s):
            self.submit(ShutDown(timeout_s))
            await self._over.wait()

    # --- events

    async def run(self) -> None:
        """Take part in the quorum, for ever. Raises SourceStopped, in a group, when this node
        cannot go on.
        """
        try:
            while True:
                await self._run_core()
                await self._new_core()  # reached by observers only: a voter raises
        finally:
            self._over.set()  # releases shut_down: leadership cannot be handed over any more
            with trio.CancelScope(shield=True):
                await self._messages.close()

    async def _run_core(self) -> None:
        """Run one core from its start. Returns when an observer needs a new one."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._write)
            nursery.start_soon(self._watch if self._restart is not None else self._remember)
            try:
                self._perform(self._call_core(self.raft.start))
                while True:
                    await self._events.wait(self.raft.deadline)
                    for event in self._events.take():
                        self._step(event)
            except _CoreFailed:
                self._drop_core()

    def _drop_core(self) -> None:
        """Give up an observer's core, with its requests in flight."""
        self._nursery.cancel_scope.cancel()

    async def _new_core(self) -> None:
        """Make a new core of an observer, as soon as the disk can be read. Raises SourceStopped."""
        assert self._restart is not None, "a voter does not start again in the same process"
        self.measures.fetched_before += self.raft.measures.fetched_records
        while True:
            self._events.clear()
            self._writes.clear()
            self.measures.snapshot = None
            await trio.sleep(_RESTART_DELAY_S)
            try:
                async with self.disk:
                    self.raft = await trio.to_thread.run_sync(
                        self._restart, trio.current_time(), wall_ms()
                    )
                    self._log.publish()
                return
            except LogError as error:
                self._log_failed(error)

    def _log_failed(self, error: LogError) -> None:
        """Report a failure of an observer's disk that may pass, such as a full disk; raise
        SourceStopped for any other.
        """
        if self._restart is None:
            raise SourceStopped(f"{error}; {RESTART}") from None
        if not may_pass(error):
            raise stopped_by(error) from None
        refused = isinstance(error, BatchesRefused)
        self.measures.request_errors["refused" if refused else "disk"] += 1
        self.measures.disk_problem = str(error)
        self._reports.report("log not written", error=escape(str(error), limit=ERROR_MAX))

    async def _watch(self) -> None:
        """Check by time whether the leader of an observer still answers, for ever: without it no
        event would say so.
        """
        while True:
            await trio.sleep(_CHECK_S)
            self._check_leader()

    def _check_leader(self) -> None:
        """Update what clients and metrics learn of an observer's leader."""
        if check_leader(self.raft, self._log, self.measures):
            self._caught_up.set()

    def _step(self, event: Event) -> None:
        if self._restart is None:
            self._perform(self._call_core(self.raft.step, event))
            return
        measures = self.raft.measures
        before = measures.protocol_violations
        self._perform(self._call_core(self.raft.step, event))
        if measures.protocol_violations > before:
            self.measures.request_errors["unusable"] += measures.protocol_violations - before
        self._check_leader()

    def _call_core(self, method: Callable[..., list[Effect]], *event: Event) -> list[Effect]:
        """Call the core, and return its effects.

        An exception is a bug, after which the core's state may be half changed. A voter stops then,
        because others can lead; an observer starts a new core.
        """
        try:
            return method(*event, trio.current_time(), wall_ms())
        except Exception as error:
            happened = "its start" if not event else type(event[0]).__name__
            self._reports.bug("quorum core failed", error, at=happened)
            if self._restart is not None:
                self.measures.problem = f"a bug of this server: {error!r}"
                raise _CoreFailed(self.measures.problem) from error
            raise SourceStopped(
                f"a bug of this server, at {happened}: {error!r}; {RESTART}"
            ) from error

    # --- effects

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, DiskEffect):
                self._writes.add(effect)
                is_leader = self.raft.leader_id == self.raft.node_id
                self.measures.disk_effect(effect, is_leader=is_leader)
                continue
            match effect:
                case Advance() if self._restart is not None:
                    # An observer's log shows records as committed once it has stored the high
                    # watermark, so that clients never see it go back after a crash.
                    self._writes.add(effect)
                case Send() | Reply():
                    if not self._writes.hold(effect):
                        self._messages.transmit(effect, self._nursery)
                case Report():
                    self._report(effect)
                case Stop(reason):
                    raise SourceStopped(reason)
                case ShutDownComplete():
                    self._over.set()
                case _:
                    self._notify(effect)

    def _notify(
        self, effect: Advance | LeaderChanged | Leading | NotLeading | Accepted | Refused
    ) -> None:
        """Pass an effect on to the log and to the controller."""
        controller = self.leadership
        match effect:
            case Advance(high_watermark):
                self._log.commit(high_watermark)
                self._caught_up.set()
                if controller is not None:
                    controller.committed(high_watermark)
            case LeaderChanged(epoch, leader_id):
                if self._log.leader_id >= 0:
                    self.measures.led_until = trio.current_time()
                if (epoch, leader_id) != (self._log.epoch, self._log.leader_id):
                    self._log.lead(epoch, leader_id)
                    self._reports.report("leader changed", epoch=epoch, leader_id=leader_id)
            case _ if controller is not None:
                notify(controller, effect)

    def _report(self, report: Report) -> None:
        fields = {  # escaped: hosts and reasons may be texts that a peer sent
            name: escape(one, limit=ERROR_MAX) if isinstance(one, str) else one
            for name, one in report.fields.items()
        }
        self._reports.report(report.event, **fields)
        self.measures.reported(report.event, fields)

    # --- disk

    async def _write(self) -> None:
        """Perform queued disk effects, sync once, and report ``Durable`` to the core; for ever.

        A failed disk ends a voter. It must not acknowledge anything more, and a retry proves
        nothing: after a failed fsync the kernel may have dropped the data and reported success
        for the next one.
        """
        while True:
            effects = await self._writes.take()
            try:
                outcome = await self._write_batch(effects)
            except LogError as error:
                self._log_failed(error)
                self._drop_core()
                return
            except Exception as error:  # a bug: as after a failure, the state on disk is unknown
                self._reports.bug("log write failed", error)
                if self._restart is not None:
                    self._drop_core()
                    return
                raise SourceStopped(
                    f"a bug of this server, at the log: {error!r}; {RESTART}"
                ) from error
            self._writes.written(effects)
            for event in outcome:
                self.submit(event)
            # After ``outcome``: the core learns of an installed snapshot before it takes the
            # effects behind it for durable.
            self.submit(Durable(self._writes.durable))
            for message in self._writes.release():
                self._messages.transmit(message, self._nursery)

    async def _write_batch(
        self, effects: Sequence[DiskEffect | Advance]
    ) -> list[Installed | NotInstalled]:
        """Perform ``effects`` in a thread, because a sync may take long. Raises LogError."""
        async with self.disk:
            try:
                outcome = await trio.to_thread.run_sync(self._log.perform, effects)
            finally:
                if self._restart is not None:
                    self._log.publish()
        if self._restart is not None:
            self.measures.disk_problem = None
            self._check_leader()
        return outcome

    async def _remember(self) -> None:
        """Store a voter's high watermark from time to time, for ever.

        It is no part of the raft state and may be stale: it only lets a restarted node serve
        committed records before it has found a leader.
        """
        while True:
            await trio.sleep(_REMEMBER_S)
            if self._log.high_watermark_dirty:
                try:
                    async with self.disk:
                        await trio.to_thread.run_sync(self._log.write_high_watermark)
                except LogError as error:
                    raise SourceStopped(f"{error}; {RESTART}") from None
