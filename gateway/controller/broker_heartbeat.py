"""BrokerHeartbeat: a broker is there, and says what it wants to be (``BrokerHeartbeatManager``, KIP-631).

A state machine of four states: a broker is fenced until it has read its own registration and wants to serve; who wants to shut
down may do so when it leads nothing any more and the others have read that.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from gateway.controller.brokers import IN_CONTROLLED_SHUTDOWN, UNFENCE, change, check_broker_epoch, fence, registered, unfenced
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.leader_election import leads_any, on_controlled_shutdown, on_directories_offline, on_unfenced
from gateway.controller.records import CORDONED_LEVEL, DIRECTORY_LEVEL
from kwire.messages.broker_heartbeat_response import BrokerHeartbeatResponse

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
        """Does a broker in this state not serve?"""
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


def broker_heartbeat(request: BrokerHeartbeatRequest, case: Case) -> Verdict:
    """What the broker is from now on, and the records of that. Raises ApiError."""
    if not case.may_on_cluster("CLUSTER_ACTION"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    broker = check_broker_epoch(request.broker_id, request.broker_epoch, case.image)
    me, sessions = registered(broker), case.sessions
    sessions.hear(me, case.steady_ms)
    before = _state(broker, case)
    after = _next_state(before, broker, request, case)
    records = _moves(broker, after, case) if after is not before else []
    records += _failed(broker, request, case)
    records += _cordoned(broker, request, case)

    def written(last_offset: int) -> None:
        sessions.has_read(me, request.current_metadata_offset)
        if after is BrokerState.CONTROLLED_SHUTDOWN:
            sessions.leave(me, last_offset)
        elif after.is_fenced:
            sessions.stay(me)

    answer = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= sessions.registered_at(me),
        is_fenced=after.is_fenced,
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    # Who was told too much by a leader that leads no more is told otherwise by the next one, in a moment.
    return Verdict(records, answer, atomic=False, written=written, sure=False)


def _state(broker: RegisterBrokerRecord, case: Case) -> BrokerState:
    if case.sessions.leaving_at(registered(broker)) is not None:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED


def _next_state(state: BrokerState, broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest, case: Case) -> BrokerState:
    """``calculateNextBrokerState``."""
    match state:
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= case.sessions.registered_at(registered(broker))
            return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if not request.want_shut_down:
                return BrokerState.UNFENCED
            return BrokerState.CONTROLLED_SHUTDOWN if leads_any(broker.broker_id, case.state) else BrokerState.SHUTDOWN_NOW
        case _:
            return BrokerState.SHUTDOWN_NOW if _may_go(broker, case) else BrokerState.CONTROLLED_SHUTDOWN


def _may_go(broker: RegisterBrokerRecord, case: Case) -> bool:
    """It leads nothing, and every broker that stays has read so: their clients are not sent to it any more."""
    if leads_any(broker.broker_id, case.state):
        return False
    leaving_at, lowest = case.sessions.leaving_at(registered(broker)), case.sessions.lowest_read(unfenced(case.image))
    assert leaving_at is not None, "a broker in controlled shutdown without its offset"
    return lowest is None or leaving_at <= lowest


def _moves(broker: RegisterBrokerRecord, after: BrokerState, case: Case) -> list[Message]:
    match after:
        case BrokerState.UNFENCED:
            return [change(broker, fenced=UNFENCE), *on_unfenced(broker.broker_id, case)]
        case BrokerState.CONTROLLED_SHUTDOWN:
            marked: list[Message] = []
            if not broker.in_controlled_shutdown:
                marked.append(change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN))
            return [*marked, *on_controlled_shutdown(broker.broker_id, case)]
        case _:
            return fence(broker, case)


def _failed(broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest, case: Case) -> list[Message]:
    """Directories that failed are lost with their replicas (KIP-858)."""
    failed = [one for one in broker.log_dirs if one in request.offline_log_dirs]
    if case.level < DIRECTORY_LEVEL or not failed:
        return []
    online = change(broker)
    online.log_dirs = [one for one in broker.log_dirs if one not in failed]
    return [*on_directories_offline(broker.broker_id, failed, case), online]


def _cordoned(broker: RegisterBrokerRecord, request: BrokerHeartbeatRequest, case: Case) -> list[Message]:
    """Directories that are cordoned get no new replicas (KIP-1066)."""
    known, told = broker.cordoned_log_dirs, request.cordoned_log_dirs
    if case.level < CORDONED_LEVEL or told is None or (known is not None and set(known) == set(told)):
        return []
    cordoned = change(broker)
    cordoned.cordoned_log_dirs = list(told)
    return [cordoned]
