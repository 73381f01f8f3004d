"""UnregisterBroker: removes the registration of a broker that is gone for good
(``ReplicationControlManager.unregisterBroker``, KIP-631).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal, Resource, SlicedDecision
from gateway.controller.brokers import registered
from gateway.controller.errors import ApiError
from gateway.controller.leader_election import on_unregistered
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.messages.unregister_broker_response import UnregisterBrokerResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.unregister_broker_request import UnregisterBrokerRequest


def unregister_broker(
    request: UnregisterBrokerRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """The broker leaves the ISR of its partitions; it stays among their replicas.

    Raises ApiError BROKER_ID_NOT_REGISTERED.
    """
    broker = context.image.brokers.get(request.broker_id)
    # BROKER_ID_NOT_REGISTERED and no success: the id may be misspelt.
    if broker is None:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records = yield from on_unregistered(broker.broker_id, context)
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    # The registration goes last, as when a broker is fenced. Replicas stay assigned to the broker
    # until an administrator reassigns them.
    return ControllerResult(
        [*records, record],
        UnregisterBrokerResponse(),
        # Only then: a decision that is dropped leaves the broker registered, with its session.
        written=lambda last_offset: context.sessions.forget(registered(broker)),
    )


def _refuse(request: UnregisterBrokerRequest, refusal: Refusal) -> Message:
    return UnregisterBrokerResponse(error_code=refusal.error, error_message=refusal.message)


def _resources(request: UnregisterBrokerRequest) -> Iterator[Resource]:
    yield "BROKER", str(request.broker_id)


API: Final = AdminApi(
    key=ApiKey.UNREGISTER_BROKER,
    operation="unregisterBroker",
    decide=unregister_broker,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=_resources,
)
