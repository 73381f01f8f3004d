"""The life of a broker: what it asks the controller, and the states that the answers lead to."""

from __future__ import annotations

from gateway.broker.lifecycle import BrokerLifecycle, BrokerState
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kwire.messages.broker_registration_request import BrokerRegistrationRequest
from kwire.messages.broker_registration_response import BrokerRegistrationResponse
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

REGISTRATION = BrokerRegistrationRequest(broker_id=3)


def registered(epoch: int = 40) -> BrokerLifecycle:
    life = BrokerLifecycle(REGISTRATION)
    life.on_registered(BrokerRegistrationResponse(broker_epoch=epoch))
    return life


def running() -> BrokerLifecycle:
    life = registered()
    life.on_heartbeat(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    return life


def heartbeat(life: BrokerLifecycle, *, is_ready: bool = True) -> BrokerHeartbeatRequest:
    request = life.next_request(39, is_ready=is_ready)
    assert isinstance(request, BrokerHeartbeatRequest)
    return request


def test_broker_registers_until_it_has_an_epoch() -> None:
    life = BrokerLifecycle(REGISTRATION)
    assert life.next_request(0, is_ready=False) is REGISTRATION
    life.on_registered(
        BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    )
    assert life.next_request(0, is_ready=True) is REGISTRATION
    assert life.state is BrokerState.NOT_RUNNING


def test_broker_asks_to_stay_fenced_until_its_logs_are_open() -> None:
    life = registered(40)
    request = heartbeat(life, is_ready=False)
    assert request.want_fence and not request.want_shut_down
    assert (request.broker_id, request.broker_epoch) == (3, 40)
    assert request.current_metadata_offset == 39
    assert not heartbeat(life).want_fence


def test_broker_recovers_when_it_is_caught_up_and_runs_when_it_is_unfenced() -> None:
    life, states = registered(), []
    for caught_up, fenced in ((False, True), (True, True), (True, False)):
        life.on_heartbeat(BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=fenced))
        states.append(life.state)
    assert states == [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]


def test_broker_stops_when_the_controller_says_so() -> None:
    life = running()
    life.shut_down()
    assert heartbeat(life).want_shut_down
    life.on_heartbeat(BrokerHeartbeatResponse(is_caught_up=True, should_shut_down=False))
    assert heartbeat(life).want_shut_down
    life.on_heartbeat(BrokerHeartbeatResponse(is_caught_up=True, should_shut_down=True))
    assert life.state is BrokerState.SHUTTING_DOWN and life.next_request(0, is_ready=True) is None


def test_broker_that_is_not_registered_stops_at_once() -> None:
    life = BrokerLifecycle(REGISTRATION)
    life.shut_down()
    assert life.next_request(0, is_ready=True) is None


def test_broker_that_was_unregistered_registers_again() -> None:
    life = running()
    life.on_heartbeat(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert life.next_request(39, is_ready=True) is REGISTRATION
    life.on_registered(BrokerRegistrationResponse(broker_epoch=90))
    assert heartbeat(life).broker_epoch == 90


def test_other_errors_of_a_heartbeat_change_nothing() -> None:
    life = running()
    life.on_heartbeat(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert heartbeat(life).broker_epoch == 40 and life.state is BrokerState.RUNNING


def test_broker_is_superseded_by_a_later_registration_of_another_process() -> None:
    life = registered(40)
    own, other = REGISTRATION.incarnation_id, Uuid(bytes(range(16)))

    def registration(incarnation: Uuid, epoch: int) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(broker_id=3, incarnation_id=incarnation, broker_epoch=epoch)

    assert life.is_superseded(registration(other, 41))
    assert not life.is_superseded(registration(own, 41))
    assert not life.is_superseded(registration(other, 12)), "that of the process before"
    life.on_heartbeat(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert life.is_registered and life.is_superseded(registration(other, 41))


def test_failed_directory_is_in_every_heartbeat_and_in_no_later_registration() -> None:
    a, b = (Uuid(bytes([number]) * 16) for number in (1, 2))
    life = BrokerLifecycle(BrokerRegistrationRequest(broker_id=3, log_dirs=[a, b]))
    life.on_registered(BrokerRegistrationResponse(broker_epoch=40))
    assert heartbeat(life).offline_log_dirs == []
    life.directory_failed(b)
    assert [heartbeat(life).offline_log_dirs for _ in range(2)] == [[b], [b]]
    life.on_heartbeat(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    again = life.next_request(0, is_ready=True)
    assert isinstance(again, BrokerRegistrationRequest) and again.log_dirs == [a]
