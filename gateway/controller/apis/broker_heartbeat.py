"""BrokerHeartbeat: keeps the session of a broker, and moves it between its states
(``BrokerHeartbeatManager``, KIP-631).

There are four states. A broker is fenced until it has read its own registration and wants to serve.
A broker that wants to shut down may do so when it leads no partition any more, and the other
brokers have read that.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.brokers import (
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    change,
    check_broker_epoch,
    fence,
    registered,
    unfenced,
)
from gateway.controller.leader_election import (
    leads_any,
    on_controlled_shutdown,
    on_directories_offline,
    on_unfenced,
)
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kwire.protocol import ApiKey
from kwire.protocol.metadata_version import (
    is_cordoned_log_dirs_supported,
    is_directory_assignment_supported,
)

if TYPE_CHECKING:
    from kwire.message import Message
    from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
    from kwire.messages.register_broker_record import RegisterBrokerRecord


class BrokerState(enum.Enum):
    """``BrokerControlState``."""

    FENCED = enum.auto()
    UNFENCED = enum.auto()
    CONTROLLED_SHUTDOWN = enum.auto()
    SHUTDOWN_NOW = enum.auto()

    @property
    def is_fenced(self) -> bool:
        """Whether a broker in this state serves no clients."""
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


def broker_heartbeat(
    request: BrokerHeartbeatRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the new state of the broker, with its records. Raises ApiError for another broker
    epoch.
    """
    # Before the session is touched: a broker that was replaced must not keep its successor's
    # session alive.
    broker = check_broker_epoch(request.broker_id, request.broker_epoch, context.image)
    session, sessions = registered(broker), context.sessions
    # Before the decision, which may take many slices: the broker is alive now.
    sessions.touch(session, context.steady_ms)
    before = _state(broker, context)
    # The heartbeat of a broker that stays unfenced does not wait for the index.
    if before is not BrokerState.UNFENCED or request.want_fence or request.want_shut_down:
        yield from context.state.index_partitions()
    after = _next_state(before, broker, request, context)
    records: list[Message] = []
    # Most heartbeats change nothing, and make no record.
    if after is not before:
        records += yield from _moves(broker, after, context)
    # Last, as in ``processBrokerHeartbeat``: the records above were made for the directories that
    # were online before this heartbeat.
    records += yield from _failed(broker, request, context)
    records += _cordoned(broker, request, context)

    def written(last_offset: int) -> None:
        # Only when the records are applied: ``_may_go`` of another broker compares with this
        # offset.
        sessions.has_read(session, request.current_metadata_offset)
        if after is BrokerState.CONTROLLED_SHUTDOWN:
            # The offset of the leader changes, which the others must have read before this broker
            # stops.
            sessions.leave(session, last_offset)
        elif after.is_fenced:
            sessions.stay(session)

    # ``>=``: the offset that a broker reports is the last one that it has applied.
    answer = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= sessions.registered_at(session),
        is_fenced=after.is_fenced,
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    # A deposed leader may send a stale response; the next leader corrects it at the next heartbeat.
    return ControllerResult(
        records, answer, atomic=False, written=written, needs_confirmation=False
    )


def _state(broker: RegisterBrokerRecord, context: ControllerRequestContext) -> BrokerState:
    # The session decides, not the registration: a new controller does not know the offset, and
    # decides on the controlled shutdown anew.
    if context.sessions.leaving_at(registered(broker)) is not None:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED


def _next_state(
    state: BrokerState,
    broker: RegisterBrokerRecord,
    request: BrokerHeartbeatRequest,
    context: ControllerRequestContext,
) -> BrokerState:
    """``calculateNextBrokerState``."""
    match state:
        case BrokerState.FENCED:
            # A fenced broker leads nothing and is in no ISR, so nothing has to be moved first.
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= context.sessions.registered_at(
                registered(broker)
            )
            return (
                BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
            )
        case BrokerState.UNFENCED:
            # Fencing comes before controlled shutdown: the broker does not ask for time to move.
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if not request.want_shut_down:
                return BrokerState.UNFENCED
            return (
                BrokerState.CONTROLLED_SHUTDOWN
                if leads_any(broker.broker_id, context.state)
                else BrokerState.SHUTDOWN_NOW
            )
        case _:
            return (
                BrokerState.SHUTDOWN_NOW
                if _may_go(broker, context)
                else BrokerState.CONTROLLED_SHUTDOWN
            )


def _may_go(broker: RegisterBrokerRecord, context: ControllerRequestContext) -> bool:
    """Whether the broker leads no partition, and every unfenced broker has read the records that
    moved its leaderships, so that none sends clients to it any more.
    """
    # Asked again each time: a leadership may have come back because no other replica was in sync.
    if leads_any(broker.broker_id, context.state):
        return False
    leaving_at, lowest = (
        context.sessions.leaving_at(registered(broker)),
        context.sessions.lowest_read(unfenced(context.image)),
    )
    assert leaving_at is not None, "a broker in controlled shutdown without its offset"
    # ``<=``: the others have read the last move itself. Without others there is none to wait for.
    return lowest is None or leaving_at <= lowest


def _moves(
    broker: RegisterBrokerRecord, after: BrokerState, context: ControllerRequestContext
) -> Slices[list[Message]]:
    match after:
        case BrokerState.UNFENCED:
            changes = yield from on_unfenced(broker.broker_id, context)
            # The broker first: a reader must not see a leader that is fenced.
            return [change(broker, fenced=UNFENCE), *changes]
        case BrokerState.CONTROLLED_SHUTDOWN:
            marked: list[Message] = []
            # Heartbeats repeat the wish every two seconds, and one record is enough.
            if not broker.in_controlled_shutdown:
                marked.append(change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN))
            changes = yield from on_controlled_shutdown(broker.broker_id, context)
            return [*marked, *changes]
        case _:
            changes = yield from fence(broker, context)
            return changes


def _failed(
    broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest, context: ControllerRequestContext
) -> Slices[list[Message]]:
    """Take failed log directories, and the replicas in them, offline (KIP-858)."""
    # Directories that were reported before are no more among the broker's log_dirs
    # (directoryIntersection), so they make no second record.
    failed = frozenset(broker.log_dirs).intersection(request.offline_log_dirs)
    # At a lower level the registration has no directories.
    if not is_directory_assignment_supported(context.level) or not failed:
        return []
    # Directories that failed stay away until the broker registers again.
    online = change(broker)
    online.log_dirs = [one for one in broker.log_dirs if one not in failed]
    # The partitions first: if this controller fails in between, the next one hears of the
    # directories again.
    changes = yield from on_directories_offline(broker.broker_id, failed, context)
    return [*changes, online]


def _cordoned(
    broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest, context: ControllerRequestContext
) -> list[Message]:
    """Record the cordoned log directories, in which no new replicas are placed (KIP-1066)."""
    # None in the request: a broker of an older release, which knows no cordoned directories. None
    # in the registration: the broker has not reported any yet.
    known, reported = broker.cordoned_log_dirs, request.cordoned_log_dirs
    if (
        not is_cordoned_log_dirs_supported(context.level)
        or reported is None
        or (known is not None and set(known) == set(reported))
    ):
        return []
    cordoned = change(broker)
    # The whole list and not the difference: the record replaces it.
    cordoned.cordoned_log_dirs = list(reported)
    return [cordoned]


def _refuse(request: BrokerHeartbeatRequest, refusal: Refusal) -> Message:
    return BrokerHeartbeatResponse(error_code=refusal.error)


API: Final = AdminApi(
    key=ApiKey.BROKER_HEARTBEAT,
    operation="processBrokerHeartbeat",
    decide=broker_heartbeat,
    refuse=_refuse,
    cluster_operation="CLUSTER_ACTION",
    timeout_ms=1_000,  # half of broker.heartbeat.interval.ms, after which the broker asks again
)
