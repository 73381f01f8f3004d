"""Runs the active controller while this node leads.

The controller is active while this node leads an epoch of the quorum, as Kafka's
``QuorumController``. A response waits until its records are committed and in this node's image. A
response without records waits until it is certain that this node was the leader when it decided.
The rules are in ``gateway.controller``, the order of decisions in ``decisions``;
``request_router`` forwards requests to another leader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.wall_clock import wall_ms
from gateway.controller.request_context import uncounted
from gateway.ports.services import THIS_NODE
from gateway.ports.streamed import Streamed
from gateway.quorum.events import Propose, Resign
from gateway.server.controller.committed_responses import CommittedResponses
from gateway.server.controller.controller_metrics import ControllerFacts
from gateway.server.controller.image_check import ImageCheck
from gateway.server.controller.periodic_tasks import PeriodicTasks
from gateway.server.controller.proposals import Proposal, Proposals, QueuedRequest, refuse
from gateway.server.controller.request_router import RequestRouter
from gateway.server.controller.voter_requests import change_voters
from gateway.server.scheduling.running_clock import RunningClock
from gateway.server.scheduling.sliced_executor import SlicedExecutor
from gateway.sources.gc_tuning import entries, frozen_when_made, release_incrementally, set_aside
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.base.slices import Slices
    from gateway.broker.quotas.client_quotas import ClientQuotas
    from gateway.broker.quotas.controller_mutation_quota import ControllerMutationQuota
    from gateway.controller.controller import Controller, Decision
    from gateway.controller.records import Operation
    from gateway.ports.pending_response import PendingResponse
    from gateway.ports.services import Authorizer, Requester
    from gateway.server.controller.changes import Changes
    from gateway.server.logging.logs import Reports
    from gateway.server.node_client.settings import ConnectionSettings
    from gateway.server.quorum.raft_driver import RaftDriver
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.message import Message

#: Interval of the check for due periodic tasks and an idle log, s.
_CHECK_S: Final = 0.1


class ActingController:
    """``gateway.ports.services.Controllers`` for handlers,
    ``gateway.server.quorum.leadership.Leadership`` for the driver of the quorum's node. :meth:`run`
    is a task.
    """

    def __init__(
        self,
        make: Callable[[Sequence[int]], Controller],
        driver: RaftDriver,
        loader: MetadataLoader,
        authorizer: Authorizer,
        leader_address: Callable[[], Address | None],
        settings: ConnectionSettings,
        reports: Reports,
        changes: Changes,
        quotas: ClientQuotas,
    ) -> None:
        """``make`` builds a controller for the given voters' ids: it places partitions on these
        nodes while no broker is registered. ``quotas``: those of changes of partitions.
        """
        self._make = make
        self._driver = driver
        self._loader = loader
        self._authorizer = authorizer
        self._reports = reports
        self._changes = changes
        self._quotas = quotas
        self._controller: Controller | None = None
        self._activates = False  # the controller of this epoch is becoming active
        self._epoch = -1  # the epoch that this node leads; -1: none
        self._start_offset = 0
        self._proposals = Proposals()
        self._clock = RunningClock()  # of the sessions of brokers
        self._decisions = SlicedExecutor(self._begin, self._decided, self._undecided)
        self._periodic = PeriodicTasks(
            self._decisions,
            lambda: self._clock.read(),
            lambda: self._next_offset,
            self._propose,
            lambda error: self._bug("periodic task failed", error),
            lambda seconds: self.facts.measures.decided(seconds),
            reports,
        )
        self.router = RequestRouter(self, leader_address, settings, reports)
        self._responses = CommittedResponses(loader)
        self._image = ImageCheck(loader, driver)
        # Callbacks of an elected node whose controller is not active yet.
        self._awaiting_confirmation: list[Callable[[], None]] = []
        self._nursery: trio.Nursery | None = None
        self.activations = 0
        self.facts = ControllerFacts(lambda: self._controller)

    # --- requests

    @property
    def is_active(self) -> bool:
        """True if this node decides on requests."""
        return self._controller is not None

    def submit(
        self, request: Message, version: int, requester: Requester, pending: PendingResponse
    ) -> None:
        """Decide on ``request`` here or forward it; its response completes ``pending``."""
        self.router.route(QueuedRequest(request, version, requester, pending))

    @property
    def leads(self) -> bool:
        """See ``LocalController``."""
        raft = self._driver.raft
        return self._epoch >= 0 or raft.leader_id == raft.node_id

    def take(self, queued: QueuedRequest) -> bool:
        """See ``LocalController``."""
        if self._controller is None:
            return self._image.refuses(queued)
        if not change_voters(queued, self._driver, self._authorizer):
            self._decisions.submit(queued)
        return True

    def confirm(self, on_confirmed: Callable[[], None]) -> None:
        """Call ``on_confirmed`` when a majority has followed this leader since now, or when this
        node does not lead; before this returns, if that is known already.
        """
        if self._epoch < 0 or self._is_alone:
            on_confirmed()
        elif self._controller is None:
            self._awaiting_confirmation.append(on_confirmed)
        else:
            proposal = self._confirming(self._controller)
            assert proposal is not None, "there are others"
            proposal.on_committed.append(on_confirmed)

    # --- decisions

    def _begin(self, queued: QueuedRequest) -> Slices[Decision] | None:
        return self._decide(queued) if queued.is_wanted else None

    def _decide(self, queued: QueuedRequest) -> Slices[Decision]:
        controller, requester = self._controller, queued.requester
        assert controller is not None, "decisions are dropped with the leadership"

        def allows(operation: str, resource_type: str, name: str) -> bool:
            return self._authorizer.allows(
                requester.principal, requester.host, operation, resource_type, name
            )

        controller.log_ends(self._next_offset)
        quota = self._quota_of(queued)
        decision = yield from controller.decide(
            queued.request,
            queued.version,
            allows,
            wall_ms(),
            requester.principal,
            steady_ms=self._clock.read(),
            count_partitions=uncounted if quota is None else quota.record,
        )
        if quota is not None and (throttle_ms := quota.throttle_ms()):
            message: Any = decision.answer
            message = message.message if isinstance(message, Streamed) else message
            message.throttle_time_ms = throttle_ms
        return decision

    def _quota_of(self, queued: QueuedRequest) -> ControllerMutationQuota | None:
        api_key, requester = queued.request.API_KEY, queued.requester
        if requester is THIS_NODE or api_key is None:
            return None
        return self._quotas.of_mutations(
            requester.principal, requester.client_id, api_key, queued.version
        )

    def _decided(self, queued: QueuedRequest, decision: Decision, seconds: float) -> None:
        assert self._controller is not None, "decisions are dropped with the leadership"
        self.facts.measures.decided(seconds)
        if decision.operation is not None:
            proposal: Proposal | None = self._propose(decision.operation, queued)
            self._periodic.run_if_due(self._controller)
        elif decision.needs_confirmation:
            proposal = self._confirming(self._controller)
        else:
            proposal = self._proposals.last
        if proposal is None:
            queued.pending.complete(decision.answer)
        else:
            proposal.answers.append((queued, decision.answer))

    def _undecided(self, queued: QueuedRequest, error: Exception) -> None:
        refuse(queued, ErrorCode.UNKNOWN_SERVER_ERROR, "This server failed; its log says why.")
        self._bug("controller request failed", error, api=queued.request.NAME)

    def _bug(self, event: str, error: Exception, **fields: str) -> None:
        # A bug: the state of the controller may be half changed, so another node has to lead.
        self._reports.bug(event, error, **fields)
        self._resign(f"a bug of this server: {error!r}")

    def _confirming(self, controller: Controller) -> Proposal | None:
        """The proposal that a response without a change waits for; None in a quorum of one node
        without proposals.

        The response may depend on records that are not committed yet, and another node may have
        been elected without this one knowing. A record that is appended now and committed later
        excludes both. A record that was appended before does not: followers may have acknowledged
        it before an election.
        """
        last = self._proposals.last
        if last is not None and (last.end_offset is None or self._is_alone):
            return last
        if self._is_alone:
            return None
        return self._propose(controller.confirmation(self._clock.read()))

    @property
    def _next_offset(self) -> int:
        """Where the next record will be, unless the quorum writes one of its own (a change of
        voters) before.
        """
        return self._driver.raft.log.end_offset + self._proposals.queued

    @property
    def _is_alone(self) -> bool:
        return self._driver.raft.leads_until == math.inf

    def _propose(self, operation: Operation, change: QueuedRequest | None = None) -> Proposal:
        for part in operation.parts:
            number = self._driver.number()
            proposal = self._proposals.add(number, part.offsets, change)
            self._driver.submit(Propose(number, self._epoch, part.batches, part.kraft_version))
        if long := set_aside(operation.records):
            self._release(long)
        return proposal

    # --- leadership

    def on_elected(self, epoch: int, start_offset: int) -> None:
        """This node was elected; it decides once the image has everything before its epoch."""
        self._epoch, self._start_offset = epoch, start_offset
        self.image_advanced()

    def image_advanced(self) -> None:
        """The image has more records. The controller becomes active when the image has all records
        up to the first one of this epoch (KAFKA-15345).
        """
        self._responses.send()
        loader = self._loader
        if self._image.has_changed() and self._image.lacks is not None:
            self.on_resigned(self._epoch)
            self.router.route_waiting()
        if (
            self._epoch < 0
            or self._image.lacks is not None
            or self._controller is not None
            or self._activates
            or not loader.loaded
            or loader.read_offset <= self._start_offset
        ):
            return
        self._activates = True
        self._decisions.run_next(
            self._activation(),
            self._active,
            lambda error: self._bug("controller activation failed", error),
        )

    def _activation(self) -> Slices[tuple[Controller, list[Operation]]]:
        """A controller with the image, and the operations that it appends first.

        The image does not change meanwhile: no other node appends records in this epoch, and this
        one has none to append yet. When the node loses leadership, the work is dropped.
        """
        controller, image = self._make(sorted(self._driver.raft.voters.nodes)), self._loader.image
        with frozen_when_made(entries(image)):
            operations = yield from controller.become_active(
                image,
                wall_ms(),
                steady_ms=self._clock.read(),
                transaction_open=self._loader.in_transaction,
            )
        return controller, operations

    def _active(self, made: tuple[Controller, list[Operation]], seconds: float) -> None:
        self._controller, operations = made
        self._activates = False
        self.activations += 1
        for operation in operations:
            self._propose(operation)
        self._reports.report(
            "controller active", epoch=self._epoch, offset=self._loader.read_offset
        )
        confirming, self._awaiting_confirmation = self._awaiting_confirmation, []
        for on_confirmed in confirming:
            self.confirm(on_confirmed)
        index = self._controller.index_partitions()
        self._decisions.run_when_idle(index, partial(self._bug, "controller index failed"))
        self.router.route_waiting()

    def on_resigned(self, epoch: int) -> None:
        """Leadership of ``epoch`` is lost. The next leader may still commit appended records."""
        if epoch != self._epoch:
            return
        if self._controller is not None:
            self._release([self._controller.image])
        proposals, undecided = self._proposals.forget(), self._decisions.cancel_all()
        self._changes.on_leadership_lost(proposals, epoch)
        self._epoch, self._controller, self._activates = -1, None, False
        for proposal in proposals:
            for queued, _ in proposal.answers:
                if proposal.end_offset is None:
                    self.router.route(queued)
                else:
                    refuse(queued, ErrorCode.REQUEST_TIMED_OUT, Proposals.UNKNOWN)
        for queued in undecided:
            self.router.route(queued)
        confirming, self._awaiting_confirmation = self._awaiting_confirmation, []
        for on_confirmed in (
            *confirming,
            *(on_confirmed for proposal in proposals for on_confirmed in proposal.on_committed),
        ):
            on_confirmed()

    def _release(self, some: list[Any]) -> None:
        """Free what has no other reference soon, piece by piece in a thread: freeing an image of
        100,000 topics and ACLs, or 200,000 records, in one step takes 65 ms.
        """
        if self._nursery is not None:
            self._nursery.start_soon(trio.to_thread.run_sync, release_incrementally, some)

    def accepted(self, number: int, end_offset: int) -> None:
        """A proposal was appended."""
        self._proposals.accepted(number, end_offset)

    def refused(self, number: int, not_leader: bool, reason: str) -> None:
        """A proposal was not appended. Later decisions depend on it, so this leader resigns.

        Unless ``not_leader``, the proposal itself is at fault: the next leader would fail with it
        as well, so its request is refused and not decided again.
        """
        if number not in self._proposals:
            return
        if not_leader:
            self.on_resigned(self._epoch)
            return
        self._reports.report("proposal refused", error=reason)
        proposal = self._proposals.take(number)
        for queued, _ in proposal.answers:
            refuse(
                queued,
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"This cannot be written to the metadata log: {reason}",
            )
        self._awaiting_confirmation += proposal.on_committed
        self._resign(reason)

    def _resign(self, reason: str) -> None:
        """Give up the leadership: the next leader decides on requests that were not appended."""
        self._driver.submit_first(Resign(self._epoch, reason))
        # At once, not when the core confirms it: nothing may be decided on a state in doubt.
        self.on_resigned(self._epoch)

    def committed(self, high_watermark: int) -> None:
        """Records below ``high_watermark`` are committed: their responses are sent in order, after
        the audit log has an entry for each change.
        """
        done = list(self._proposals.committed(high_watermark))
        self.facts.measures.too_late(
            queued.request for one in done for queued, _ in one.answers if queued.pending.done
        )
        self._changes.committed(
            done, self._epoch, high_watermark, wall_ms(), lambda: self._responses.add(done)
        )

    async def run(self) -> None:
        """Continue long decisions, run periodic tasks, write NoOpRecords while the log is idle, and
        forward requests; for ever.
        """
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._decisions.run)
                self._nursery.start_soon(self.router.run)
                while True:
                    await trio.sleep(_CHECK_S)
                    self.facts.measures.leader_is(
                        self._driver.raft.epoch, self._driver.raft.leader_id
                    )
                    self._clock.read()
                    if self._controller is not None:
                        self._periodic.run_if_due(self._controller)
                    if self._controller is not None and not self._proposals:
                        self._periodic.write_no_op(self._controller)
        finally:
            self._nursery = None
