"""Drives the raft core of a quorum's node, voter or observer: passes events into ``Raft`` and
performs its effects in order.

One task steps the core; one thread at a time writes. Effects that gather while the disk is busy are
written and synced together, and messages wait until the effects that they depend on are durable
(``raft_write_queue``). ``driver_policies`` decides what a failure means for a
voter and for an observer.

The rules are in ``gateway.quorum``, the files in ``gateway.sources.quorum_log``. Kafka's
counterpart is ``KafkaRaftClientDriver``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from gateway.server.quorum.driver_policies import Driven, DriverPolicy, ObserverPolicy, VoterPolicy
from gateway.server.quorum.leadership import Leadership, notify
from gateway.server.quorum.raft_driver_metrics import RaftDriverMetrics
from gateway.server.quorum.raft_event_queue import RaftEventQueue
from gateway.server.quorum.raft_messages import RaftMessages
from gateway.server.quorum.raft_write_queue import WriteQueue
from kwire.messages.describe_quorum_request import DescribeQuorumRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.ports.pending_response import PendingResponse
    from gateway.quorum.raft import Raft
    from gateway.server.logging.logs import Reports
    from gateway.server.node_client.settings import ConnectionSettings
    from gateway.sources.quorum_log import QuorumLog
    from kwire.message import Message


class _CoreFailed(Exception):
    """The core raised, and another one has to be made."""


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
        """``restart``: as of ``ObserverPolicy``; None for a voter."""
        self.raft = raft
        self.disk = trio.Lock()  #: held by a task whose thread changes the log
        self.leadership: Leadership | None = None
        self.measures = RaftDriverMetrics()
        self._log = log
        self._reports = reports
        self._events = RaftEventQueue()
        self._writes = WriteQueue()
        self._caught_up = trio.Event()
        driven = Driven(log, self.measures, reports, self.disk, self._caught_up)
        self.policy: DriverPolicy = (
            VoterPolicy(driven) if restart is None else ObserverPolicy(driven, restart)
        )
        self._messages = RaftMessages(
            log, settings, self.measures, self._events, self.policy.read_failed
        )
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
                await self._new_core()
        finally:
            self._over.set()  # releases shut_down: leadership cannot be handed over any more
            with trio.CancelScope(shield=True):
                await self._messages.close()

    async def _run_core(self) -> None:
        """Run one core from its start. Returns when another one has to be made."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._write)
            nursery.start_soon(self.policy.tend, self.raft)
            try:
                self._perform(self._call_core(self.raft.start))
                while True:
                    await self._events.wait(self.raft.deadline)
                    for event in self._events.take():
                        self._step(event)
            except _CoreFailed:
                self._drop_core()

    def _drop_core(self) -> None:
        """Give up the core, with its requests in flight."""
        self._nursery.cancel_scope.cancel()

    async def _new_core(self) -> None:
        """Make a new core, as soon as the disk can be read. Raises SourceStopped."""
        self.measures.fetched_before += self.raft.measures.fetched_records
        while True:
            self._events.clear()
            self._writes.clear()
            self.measures.snapshot = None
            try:
                self.raft = await self.policy.new_core()
                return
            except LogError as error:
                self.policy.log_failed(error)

    def _step(self, event: Event) -> None:
        self._perform(self._call_core(self.raft.step, event))
        self.policy.stepped(self.raft)

    def _call_core(self, method: Callable[..., list[Effect]], *event: Event) -> list[Effect]:
        """Call the core, and return its effects. Raises SourceStopped or _CoreFailed for a bug."""
        try:
            return method(*event, trio.current_time(), wall_ms())
        except Exception as error:
            happened = "its start" if not event else type(event[0]).__name__
            self._reports.bug("quorum core failed", error, at=happened)
            self.policy.core_failed(error, happened)
            raise _CoreFailed from error

    # --- effects

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, DiskEffect):
                self._writes.add(effect)
                is_leader = self.raft.leader_id == self.raft.node_id
                self.measures.disk_effect(effect, is_leader=is_leader)
                continue
            match effect:
                case Advance() if self.policy.stores_commits:
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
        """Perform queued disk effects, sync once, and report ``Durable`` to the core; until the
        core is given up.
        """
        while True:
            effects = await self._writes.take()
            try:
                outcome = await self._write_batch(effects)
            except LogError as error:
                self.policy.log_failed(error)
                self._drop_core()
                return
            except Exception as error:  # a bug: as after a failure, the state on disk is unknown
                self._reports.bug("log write failed", error)
                self.policy.log_bug(error)
                self._drop_core()
                return
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
                self.policy.tried()
        self.policy.written(self.raft)
        return outcome
