"""UnregisterBroker: a broker that is gone for good is forgotten (``ReplicationControlManager.unregisterBroker``, KIP-631)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.brokers import registered
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.leader_election import on_unregistered
from kwire.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.messages.unregister_broker_response import UnregisterBrokerResponse

if TYPE_CHECKING:
    from kwire.messages.unregister_broker_request import UnregisterBrokerRequest


def unregister_broker(request: UnregisterBrokerRequest, case: Case) -> Verdict:
    """It leaves the ISR of its partitions, and the cluster; it stays among their replicas. Raises ApiError."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    broker = case.image.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(Error.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered")
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    return Verdict(
        [*on_unregistered(broker.broker_id, case), record],
        UnregisterBrokerResponse(),
        written=lambda last_offset: case.sessions.forget(registered(broker)),
    )
