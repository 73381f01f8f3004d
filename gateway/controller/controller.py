"""Decides on requests as the active controller of the quorum does (KIP-631, ``QuorumController``).

A request and a moment go in, records to append and a response come out. While its node leads, the
controller has the committed image with its own proposals on top, so that the next request sees
them. When the node loses leadership that state is dropped. The controller does not know the log,
nor when records are committed; the modules of ``apis`` make the records of a request.

    operations = controller.activate(image, now_ms)   # the log up to the start of this epoch
    decision = controller.handle(request, version, allows, now_ms)
    ...                                               # decision.operation is committed
    decision.answer                                   # may be sent now
    controller.deactivate()
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Final

from gateway.base.slices import Slices, pieces, run
from gateway.controller.activation import activation
from gateway.controller.apis import admin_api, load, refused
from gateway.controller.brokers import unfenced
from gateway.controller.errors import ApiError
from gateway.controller.kraft import KRaft, StaticKRaft
from gateway.controller.periodic import Periodic
from gateway.controller.records import (
    NO_OP_LEVEL,
    RECORDS_PER_SLICE,
    Operation,
    operation,
    operation_in_slices,
)
from gateway.controller.request_context import (
    ANONYMOUS,
    Allows,
    ControllerRequestContext,
    ControllerResult,
    CountPartitions,
    uncounted,
)
from gateway.controller.sessions import Sessions
from gateway.controller.settings import ControllerSettings
from gateway.controller.state import State
from gateway.ports.streamed import Streamed
from kwire.cluster import Image
from kwire.message import Message
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import Uuid

_STATIC_KRAFT: Final = StaticKRaft()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one request.

    ``operation`` must be appended in this epoch or not at all; None if nothing changes. ``answer``
    may be sent when the operation is committed. Without an operation it may be sent when all
    earlier proposals are committed, because it may contain them, and, if it ``needs_confirmation``,
    when this node is known to have led when it decided.
    """

    operation: Operation | None
    answer: Message | Streamed
    needs_confirmation: bool = True


class Controller:
    """The controller of one node. ``random(count)`` returns random bytes, ``kraft`` is the quorum
    that elects it.

    Its methods raise for a bug only, never for a request. After an exception the state may be
    partly changed, so the node must resign.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        *,
        random: Callable[[int], bytes],
        kraft: KRaft = _STATIC_KRAFT,
    ) -> None:
        self.settings = settings
        self._random = random
        self._kraft = kraft
        # Of this leadership: another one decides on what the log says.
        self._kraft_proposed = 0
        self._state: State | None = None
        self._sessions = Sessions(settings.broker_session_timeout_ms)
        self._periodic = Periodic(settings, 0)
        self._next_offset = 0
        self._idle_since_ms = 0

    @property
    def is_active(self) -> bool:
        """Whether it decides on requests."""
        return self._state is not None

    @property
    def image(self) -> Image | None:
        """The cluster with all proposals, committed or not; None while inactive."""
        return None if self._state is None else self._state.image

    def activate(
        self,
        image: Image,
        now_ms: int,
        *,
        steady_ms: int | None = None,
        transaction_open: bool = False,
    ) -> list[Operation]:
        """Return the result of :meth:`become_active`, run to its end at once."""
        return run(
            self.become_active(
                image, now_ms, steady_ms=steady_ms, transaction_open=transaction_open
            )
        )

    def become_active(
        self,
        image: Image,
        now_ms: int,
        *,
        steady_ms: int | None = None,
        transaction_open: bool = False,
    ) -> Slices[list[Operation]]:
        """Become active, in slices, with the ``image`` of everything before this epoch. Returns the
        operations to append first, in order.

        ``transaction_open``: the log ends inside a metadata transaction. ``image`` is copied, and
        must not change until this is complete. The caller must have applied the whole log up to the
        start of this epoch to it, else requests are decided on a stale state (KAFKA-15345).

        Here and below ``now_ms`` is wall-clock time since the epoch, and ``steady_ms`` is the same
        moment on a monotonic clock.
        """
        yield from load()
        # A copy: what this controller proposes may never be committed, and must leave no trace in
        # the image that other readers of the node have (KAFKA-14457, 15048).
        state = State()
        # A copy of dictionaries and not of records, which are never changed in place: 100,000
        # partitions take milliseconds.
        yield from state.copy(image)
        # After the slices before it: until the state is whole, requests get NOT_CONTROLLER.
        self._state = state
        steady_ms = now_ms if steady_ms is None else steady_ms
        self._idle_since_ms = steady_ms
        self._next_offset = image.next_offset
        self._kraft_proposed = 0
        # Sessions of an earlier leadership would fence brokers that another leader has heard since.
        self._sessions = Sessions(self.settings.broker_session_timeout_ms)
        # Heartbeats are not in the log: every unfenced broker gets a full session timeout to find
        # the new controller (ClusterControlManager.activate).
        for broker in unfenced(image):
            if not self._has_ended(image.brokers[broker.broker_id]):
                self._sessions.touch(broker, steady_ms)
        self._periodic = Periodic(self.settings, steady_ms)
        # Before any request, so that no record precedes the metadata.version that it is read at.
        operations = activation(image, self.settings, transaction_open=transaction_open)
        for one in operations:
            yield from self._apply(one)
        return operations

    def _has_ended(self, broker: RegisterBrokerRecord) -> bool:
        """Whether the process of a registered broker has ended for certain: this one holds its data
        directory. Its successor then does not wait for the end of a session.
        """
        own = self.settings.broker_incarnation
        return (
            own is not None
            and broker.broker_id == self.settings.node_id
            and broker.incarnation_id != own
        )

    def index_partitions(self) -> Slices[None]:
        """Build the partition index, which decisions about brokers need, in slices. Other decisions
        may be made between two slices; one that needs the index builds the rest of it.
        """
        # Without brokers no decision needs it.
        if self._state is not None and self._state.image.brokers:
            yield from self._state.index_partitions()

    def deactivate(self) -> None:
        """Drop the state: the node has lost leadership."""
        # Not reverted but dropped: Kafka reverts to an in-memory snapshot, which was missing at
        # some offsets (KAFKA-13114, 17608).
        self._state = None

    def log_ends(self, next_offset: int) -> None:
        """Note that the log ends at ``next_offset``, where the next record goes unless the quorum
        appends control records first.
        """
        # Never back: the records of decisions that are still to be appended are counted already.
        self._next_offset = max(self._next_offset, next_offset)

    def handle(
        self,
        request: Message,
        version: int,
        allows: Allows,
        now_ms: int,
        principal: str = ANONYMOUS,
        *,
        steady_ms: int | None = None,
        count_partitions: CountPartitions = uncounted,
    ) -> Decision:
        """Return the result of :meth:`decide`, run to its end at once."""
        return run(
            self.decide(
                request,
                version,
                allows,
                now_ms,
                principal,
                steady_ms=steady_ms,
                count_partitions=count_partitions,
            )
        )

    def decide(
        self,
        request: Message,
        version: int,
        allows: Allows,
        now_ms: int,
        principal: str = ANONYMOUS,
        *,
        steady_ms: int | None = None,
        count_partitions: CountPartitions = uncounted,
    ) -> Slices[Decision]:
        """Decide on a request of ``principal``, in slices. ``allows`` is its authorizer, and
        ``count_partitions`` its quota (``ControllerRequestContext``).

        Until the decision is complete no other one may begin, nor :meth:`periodic`. The caller
        drops the generator when the node loses leadership. While this controller is inactive the
        response has NOT_CONTROLLER.
        """
        state = self._state
        if state is None:
            why = "This node is not the active controller."
            # NOT_CONTROLLER and no other error: brokers look for the new controller for this one
            # only (KAFKA-12677).
            return Decision(None, refused(request, version, ErrorCode.NOT_CONTROLLER, why))
        context = self._context(state, version, allows, now_ms, steady_ms, principal)
        if count_partitions is not uncounted:
            context = replace(context, count_partitions=count_partitions)
        try:
            result, decided = yield from _decided(request, context)
        # The whole request is refused, so nothing was applied: the state is as before.
        except ApiError as refusal:
            return Decision(None, refused(request, version, refusal.error, refusal.message))
        # Before ``_apply``: later requests must not see what was only tried.
        if getattr(request, "validate_only", False):
            # The records were made to find every error, and are dropped.
            return Decision(None, result.answer)
        if decided is not None:
            # Before the records are committed, so that the next decision builds on this one: two
            # brokers that are fenced in turn must not each see the other one alive (KAFKA-13173).
            yield from self._apply(decided)
            self._idle_since_ms = context.steady_ms
            if request.API_KEY == ApiKey.BROKER_HEARTBEAT:
                self._periodic.broker_changed(context.steady_ms)
        # After ``_apply``, which has counted the records: sessions need the offset of the last one.
        result.written(self._next_offset - 1)
        return Decision(decided, result.answer, result.needs_confirmation)

    @property
    def deadline_ms(self) -> int | None:
        """The moment at which the next periodic task is due, on the monotonic clock; None while
        inactive.
        """
        return None if self._state is None else self._periodic.deadline_ms

    def poll(self, now_ms: int, *, steady_ms: int | None = None) -> list[Operation]:
        """Return the result of :meth:`periodic`, run to its end at once."""
        return run(self.periodic(now_ms, steady_ms=steady_ms))

    def periodic(self, now_ms: int, *, steady_ms: int | None = None) -> Slices[list[Operation]]:
        """Run the periodic tasks that are due, in slices; return the operations to append, in
        order.

        Until they are complete no decision may begin, as in :meth:`decide`.
        """
        operations: list[Operation] = []
        state, moment = self._state, now_ms if steady_ms is None else steady_ms
        for task in self._periodic.due(moment) if state is not None else ():
            assert state is not None
            # The controller acts for itself, so there is no principal to ask about.
            context = self._context(state, 0, _allow_all, now_ms, moment, ANONYMOUS)
            records = yield from task.run(context)
            # The records of a task are not atomic: a fenced broker may have more partitions than
            # one operation may have records, and each change leaves a valid state.
            if records:
                decided = yield from operation_in_slices(
                    task.name, records, context.level, atomic=False
                )
                yield from self._apply(decided)
                self._idle_since_ms = moment
                operations.append(decided)
            # Also without records, or the task would be due for ever.
            self._periodic.done(task, moment, found=bool(records))
        return operations

    def idle(self, steady_ms: int) -> Operation | None:
        """Return a NoOpRecord after ``metadata.max.idle.interval.ms`` without records; None before.

        The high watermark then advances on an idle cluster, too, which shows a live leader
        (KIP-835).
        """
        state, interval_ms = self._state, self.settings.max_idle_interval_ms
        # 0 switches it off, as in Kafka (``metadata.max.idle.interval.ms``).
        if state is None or not interval_ms or steady_ms - self._idle_since_ms < interval_ms:
            return None
        # Nodes at an older level cannot read the record, and would stop.
        if state.image.metadata_version < NO_OP_LEVEL:
            return None
        return self.confirmation(steady_ms)

    def confirmation(self, steady_ms: int) -> Operation:
        """Return a NoOpRecord whose commit proves that this node led when it was appended. Only
        while active.
        """
        assert self._state is not None, "only an active controller confirms that it leads"
        self._idle_since_ms = steady_ms
        # It goes past ``_apply``: the record changes nothing but the end of the log.
        self._next_offset += 1
        return operation("noOpRecord", [NoOpRecord()], self._state.image.metadata_version)

    def _apply(self, decided: Operation) -> Slices[None]:
        assert self._state is not None
        for records in pieces(decided.records, RECORDS_PER_SLICE):
            for record in records:
                self._state.apply(record.message)
            yield
        self._next_offset += decided.offsets
        # Until the quorum has appended it ``kraft.kraft_version`` is still the old one.
        self._kraft_proposed = max(self._kraft_proposed, decided.kraft_version or 0)

    def _context(
        self,
        state: State,
        version: int,
        allows: Allows,
        now_ms: int,
        steady_ms: int | None,
        principal: str,
    ) -> ControllerRequestContext:
        return ControllerRequestContext(
            version=version,
            allows=allows,
            principal=principal,
            now_ms=now_ms,
            steady_ms=now_ms if steady_ms is None else steady_ms,
            state=state,
            settings=self.settings,
            sessions=self._sessions,
            next_offset=self._next_offset,
            kraft=self._kraft,
            kraft_proposed=self._kraft_proposed,
            random_below=self._random_below,
            new_id=self._new_id,
        )

    def _random_below(self, below: int) -> int:
        # 64 bits: the bias of the remainder is below 2^-40 for up to 2^24 nodes.
        return int.from_bytes(self._random(8), "big") % below

    def _new_id(self) -> Uuid:
        """Return a random id (version 4 of RFC 9562) that no topic has.

        None begins with "-", which a command line would take for an option (``Uuid.randomUuid``).
        """
        assert self._state is not None
        while True:
            raw = bytearray(self._random(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            # Compared with all topics although the chance is 2^-122: two topics with one id could
            # not be told apart.
            made = Uuid(raw)
            if made not in self._state.image.topics and not str(made).startswith("-"):
                return made


def _allow_all(operation: str, resource_type: str, name: str) -> bool:
    return True


def _decided(
    request: Message, context: ControllerRequestContext
) -> Slices[tuple[ControllerResult, Operation | None]]:
    """Return the result of the API's decision, and the operation with its records, in slices.
    Raises ApiError.
    """
    assert request.API_KEY is not None, "only requests are decided"
    # The cluster's permission is asked before the request is looked at, as in ``ControllerApis``.
    api = admin_api(request.API_KEY)
    if api.cluster_operation is not None and not context.may_on_cluster(api.cluster_operation):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    result = api.decide(request, context)
    # Most decisions are short and need no slices.
    if isinstance(result, Generator):
        result = yield from result
    # No operation: the quorum refuses a proposal without records.
    if not result.records:
        return result, None
    decided = yield from operation_in_slices(
        api.operation, result.records, context.level, atomic=result.atomic
    )
    if result.kraft_version is not None:
        decided = replace(decided, kraft_version=result.kraft_version)
    return result, decided
