"""The active controller, wherever it is: decides here while this node leads, and passes requests on to the leader else.

What it decides is ``gateway.controller``'s affair. Here are its life, which follows that of the quorum's leader, and the
answers, which wait until what they say is committed.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from gateway.controller.brokers import fenced_by, unfenced
from gateway.controller.errors import Error
from gateway.controller.refusals import refused
from gateway.handlers.answer_errors import errors_of
from gateway.quorum.raft.events import Propose
from gateway.server.controller_facts import ControllerFacts
from gateway.server.forwarding import ForwardingMeasures, ForwardingRefused
from gateway.server.passing_on import NotController, NotPassedOn, PassingOn
from gateway.server.proposals import Proposal, Proposals, Wish, answer
from gateway.server.running_clock import RunningClock
from gateway.server.upstream_errors import UnsupportedByPeer, UpstreamError

if TYPE_CHECKING:
    from gateway.address import Address
    from gateway.controller.controller import Controller
    from gateway.controller.records import Operation
    from gateway.handlers.context import Later
    from gateway.ports import Asker, Authorizer
    from gateway.server.changes import Changes
    from gateway.server.logs import Reports
    from gateway.server.quorum_peer import Connecting
    from gateway.server.raft_driver import RaftDriver
    from gateway.sources.image_keeper import ImageKeeper
    from kwire.message import Message

#: Requests that may wait for a leader; more are refused at once.
_WAITING_MAX: Final = 10_000
#: Between two looks at whether the log has been idle for long enough, and at who leads, s.
_LOOK_S: Final = 0.1
_NO_LEADER: Final = "No controller is active at the moment; ask again."
_UNKNOWN: Final = (
    "This node lost the leadership before the change was committed: whether it was made is not known. Look, and ask again."
)


class ActingController:
    """``gateway.ports.Controllers``, and what the driver tells (``raft_driver.Leadership``). :meth:`run` is a task."""

    def __init__(
        self,
        make: Callable[[Sequence[int]], Controller],
        driver: RaftDriver,
        keeper: ImageKeeper,
        authorizer: Authorizer,
        leader_address: Callable[[], Address | None],
        how: Connecting,
        reports: Reports,
        changes: Changes,
    ) -> None:
        """``make`` gives a controller that places partitions on the nodes with these ids while no broker is registered."""
        self._make = make
        self._driver = driver
        self._keeper = keeper
        self._authorizer = authorizer
        self._leader_address = leader_address
        self._reports = reports
        self._changes = changes
        self._passing_on = PassingOn(how)
        self._controller: Controller | None = None
        self._epoch = -1  # that this node leads; -1: none
        self._start_offset = 0
        self._proposals = Proposals()
        self._clock = RunningClock()  # of the sessions of brokers
        self._waiting: deque[Wish] = deque()
        self._unseen: deque[Proposal] = deque()  # committed, and not answered before whoever asked can see it here
        self._unsure: list[Callable[[], None]] = []  # who would know whether this node leads
        self._nursery: trio.Nursery | None = None
        self.activations = 0
        self.facts = ControllerFacts(keeper, lambda: self._controller)

    @property
    def forwarding(self) -> ForwardingMeasures:
        """How it goes with what is passed on."""
        return self._passing_on.measures

    # --- asked --------------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Does this node decide?"""
        return self._controller is not None

    def submit(self, request: Message, version: int, asker: Asker, later: Later) -> None:
        """Have ``request`` carried out, here or by the leader; its answer completes ``later``."""
        wish = Wish(request, version, asker, later)
        if self._controller is not None:
            self._decide(self._controller, wish)
            return
        if len(self._waiting) >= _WAITING_MAX:
            self._waiting = deque(one for one in self._waiting if one.is_wanted)
        if len(self._waiting) < _WAITING_MAX:
            self._waiting.append(wish)
            self._place()
        else:
            _refuse(wish, Error.NOT_CONTROLLER, "Too many requests wait for a controller; ask again later.")

    def confirm(self, then: Callable[[], None]) -> None:
        """Call ``then`` when a majority has followed this leader since now, or when this node does not lead (any more).

        Within a call of this, where that is known already.
        """
        if self._epoch < 0 or self._is_alone:
            then()
        elif self._controller is None:
            self._unsure.append(then)
        else:
            proposal = self._confirming(self._controller)
            assert proposal is not None, "there are others"
            proposal.then.append(then)

    def _place(self) -> None:
        """Requests that wait go to whoever can carry them out by now."""
        if self._controller is not None:
            waiting, self._waiting = self._waiting, deque()
            for wish in waiting:
                if self._controller is None:
                    self._waiting.append(wish)
                elif wish.is_wanted:
                    self._decide(self._controller, wish)
            return
        address = self._leader_address()
        leads = self._epoch >= 0 or self._driver.raft.leader_id == self._driver.raft.node_id
        if leads or address is None or self._nursery is None:
            return
        waiting, self._waiting = self._waiting, deque()
        for wish in waiting:
            if wish.is_wanted:
                self._nursery.start_soon(self._pass_on, wish, address)

    def _decide(self, controller: Controller, wish: Wish) -> None:
        asker = wish.asker

        def allows(operation: str, resource_type: str, name: str) -> bool:
            return self._authorizer.allows(asker.principal, asker.host, operation, resource_type, name)

        try:
            controller.log_ends(self._next_offset)
            with self.facts.measures.deciding():
                outcome = controller.handle(
                    wish.request, wish.version, allows, _wall_ms(), asker.principal, steady_ms=self._clock.read()
                )
        except Exception as error:  # a bug of ours: its state may be half changed, so somebody else has to lead
            self._reports.bug("request not decided", error, api=wish.request.NAME)
            _refuse(wish, Error.UNKNOWN_SERVER_ERROR, "This server failed; its log says why.")
            self._resign(f"a bug of this server: {error!r}")
            return
        if outcome.operation is not None:
            proposal: Proposal | None = self._propose(outcome.operation, wish)
        elif outcome.sure:
            proposal = self._confirming(controller)
        else:
            proposal = self._proposals.last
        if proposal is None:
            wish.later.complete(outcome.answer)
        else:
            proposal.answers.append((wish, outcome.answer))

    def _confirming(self, controller: Controller) -> Proposal | None:
        """What an answer that changes nothing waits for: it may speak of what is not committed yet, and this node may have
        been followed by another leader without knowing it. Records that come to be committed prove both wrong.

        Records that were appended before are no proof: who acknowledges them may do so from before an election. None where
        there is nothing to wait for, in a quorum of this node alone.
        """
        last = self._proposals.last
        if last is not None and (last.end_offset is None or self._is_alone):
            return last
        return None if self._is_alone else self._propose(controller.confirmation(_wall_ms()))

    @property
    def _next_offset(self) -> int:
        """Where the next record will be, unless the quorum writes one of its own (a change of voters) before."""
        return self._driver.raft.log.end_offset + self._proposals.queued

    @property
    def _is_alone(self) -> bool:
        return self._driver.raft.leads_until == math.inf

    def _propose(self, operation: Operation, change: Wish | None = None) -> Proposal:
        number = self._driver.number()
        proposal = self._proposals.add(number, operation.offsets, change)
        self._driver.submit(Propose(number, self._epoch, operation.batches, operation.kraft_version))
        return proposal

    async def _pass_on(self, wish: Wish, address: Address) -> None:
        try:
            answer = await self._passing_on.ask(address, wish.request, wish.version, wish.asker, lambda: wish.is_wanted)
        except NotController:
            await trio.sleep(_LOOK_S)
            self._again(wish)
        except NotPassedOn as error:
            if wish.is_wanted:
                self._reports.report("request not passed on", "warning", api=wish.request.NAME, error=str(error))
                await trio.sleep(_LOOK_S)
                self._again(wish)
        except UnsupportedByPeer as error:
            _refuse(wish, Error.UNSUPPORTED_VERSION, f"The controller cannot be asked this: {error}")
        except ForwardingRefused as error:
            self._reports.report("forwarding refused", "error", api=wish.request.NAME, controller=str(address), error=str(error))
            _refuse(wish, Error.UNKNOWN_SERVER_ERROR, f"The controller does not take this from this node: {error}.")
        except UpstreamError as error:
            said = f"The controller was asked and has not answered, so whether this was done is not known: {error}"
            _refuse(wish, Error.REQUEST_TIMED_OUT, said)
        else:
            if Error.NOT_CONTROLLER in errors_of(answer):
                await trio.sleep(_LOOK_S)
                self._again(wish)
            else:
                wish.later.complete(answer)

    def _again(self, wish: Wish) -> None:
        if wish.is_wanted:
            self.submit(wish.request, wish.version, wish.asker, wish.later)

    # --- the life of a leader -----------------------------------------------------------------------------------------

    def leading(self, epoch: int, start_offset: int) -> None:
        """This node was elected; it decides once everything before it is in the image."""
        self._epoch, self._start_offset = epoch, start_offset
        self.folded()

    def folded(self) -> None:
        """The image moved. One that has all up to this epoch's first record is what a controller begins with (KAFKA-15345)."""
        self._answer_seen()
        keeper = self._keeper
        if self._epoch < 0 or self._controller is not None or not keeper.loaded or keeper.read_offset <= self._start_offset:
            return
        try:
            controller = self._make(sorted(self._driver.raft.voters.nodes))
            operations = controller.activate(
                keeper.image, _wall_ms(), steady_ms=self._clock.read(), transaction_open=keeper.in_transaction
            )
        except Exception as error:
            self._reports.bug("controller not active", error)
            self._resign(f"a bug of this server: {error!r}")
            return
        self._controller = controller
        self.activations += 1
        for operation in operations:
            self._propose(operation)
        self._reports.report("controller active", "info", epoch=self._epoch, offset=keeper.read_offset)
        unsure, self._unsure = self._unsure, []
        for then in unsure:
            self.confirm(then)
        self._place()

    def not_leading(self, epoch: int) -> None:
        """Somebody else decides from now on. What was appended and is not committed has an unknown fate."""
        if epoch != self._epoch:
            return
        if self._controller is not None:
            self.facts.measures.leads_no_more(self._controller.elections)
        proposals = self._proposals.forget()
        self._changes.left(proposals, epoch)
        self._epoch, self._controller = -1, None
        for proposal in proposals:
            for wish, _ in proposal.answers:
                if proposal.end_offset is None:
                    self._again(wish)
                else:
                    _refuse(wish, Error.REQUEST_TIMED_OUT, _UNKNOWN)
        unsure, self._unsure = self._unsure, []
        for then in (*unsure, *(then for proposal in proposals for then in proposal.then)):
            then()

    def accepted(self, number: int, end_offset: int) -> None:
        """A proposal was appended."""
        self._proposals.accepted(number, end_offset)

    def refused(self, number: int, not_leader: bool, reason: str) -> None:
        """A proposal was not appended, and what was decided after it counts on it: this leader cannot go on.

        Unless it only is no leader any more, the proposal itself is at fault: made again, it would end the next one, too.
        """
        if number not in self._proposals:
            return
        if not_leader:
            self.not_leading(self._epoch)
            return
        self._reports.report("proposal refused", "error", error=reason)
        proposal = self._proposals.take(number)
        for wish, _ in proposal.answers:
            _refuse(wish, Error.UNKNOWN_SERVER_ERROR, f"This cannot be written to the metadata log: {reason}")
        self._unsure += proposal.then
        self._resign(reason)

    def _resign(self, reason: str) -> None:
        """What was proposed and is not appended yet never will be; it is for the next leader to decide."""
        self._driver.resign(self._epoch, reason)
        self.not_leading(self._epoch)

    def committed(self, high_watermark: int) -> None:
        """Everything below is committed: who waits for it is answered, in order, once it is written down who changed what."""
        done = list(self._proposals.committed(high_watermark))
        self.facts.measures.too_late(wish.request for one in done for wish, _ in one.answers if wish.later.done)
        self._changes.committed(done, self._epoch, high_watermark, _wall_ms(), lambda: self._answer(done))

    def _answer(self, done: Iterable[Proposal]) -> None:
        self._unseen += done
        self._answer_seen()

    def _answer_seen(self) -> None:
        """Who made a topic here and lists them next finds it: the image has it. One that cannot go on is not waited for."""
        keeper, unseen = self._keeper, self._unseen
        while unseen and (keeper.problem is not None or (unseen[0].end_offset or 0) <= keeper.next_offset):
            answer([unseen.popleft()])

    async def run(self) -> None:
        """Do what the controller does by itself, write NoOpRecords while nothing else is written, and find a leader for those
        who wait; for ever."""
        try:
            async with trio.open_nursery() as self._nursery:
                while True:
                    await trio.sleep(_LOOK_S)
                    self.facts.measures.leader_is(self._driver.raft.epoch, self._driver.raft.leader_id)
                    await self._passing_on.leader_is(self._leader_address())
                    self._clock.read()
                    if self._waiting:
                        self._place()
                    if self._controller is not None:
                        self._poll(self._controller)
                    if self._controller is not None and not self._proposals:
                        self._write_no_op(self._controller)
        finally:
            self._nursery = None
            with trio.CancelScope(shield=True):
                await self._passing_on.close()

    def _poll(self, controller: Controller) -> None:
        """Sessions of brokers that ended, leaders to be put right: whatever is due."""
        now_ms = self._clock.read()
        if controller.deadline_ms is None or now_ms < controller.deadline_ms:
            return
        assert controller.image is not None, "the controller of a leader is active"
        serving = set(unfenced(controller.image))
        try:
            controller.log_ends(self._next_offset)
            with self.facts.measures.deciding():
                operations = controller.poll(_wall_ms(), steady_ms=now_ms)
        except Exception as error:
            self._reports.bug("periodic task failed", error)
            self._resign(f"a bug of this server: {error!r}")
            return
        for operation in operations:
            self._propose(operation)
            for broker_id, epoch in serving.intersection(fenced_by(operation)):
                self._reports.report("broker silent", "warning", broker_id=broker_id, broker_epoch=epoch)

    def _write_no_op(self, controller: Controller) -> None:
        idle = controller.idle(_wall_ms())
        if idle is not None:
            self._propose(idle)


def _refuse(wish: Wish, error: Error, message: str) -> None:
    wish.later.complete(refused(wish.request, wish.version, error, message))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
