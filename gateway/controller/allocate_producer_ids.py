"""AllocateProducerIds: a broker gets a block of ids for its producers, which nobody else has (``ProducerIdControlManager``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.brokers import check_broker_epoch
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from kwire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kwire.messages.producer_ids_record import ProducerIdsRecord

if TYPE_CHECKING:
    from kwire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

#: ``ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE``.
BLOCK_SIZE: Final = 1_000
_PRODUCER_ID_MAX: Final = 2**63 - 1


def allocate_producer_ids(request: AllocateProducerIdsRequest, case: Case) -> Verdict:
    """The next block. Raises ApiError."""
    if not case.may_on_cluster("CLUSTER_ACTION"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    check_broker_epoch(request.broker_id, request.broker_epoch, case.image)
    first = max(0, case.image.next_producer_id)
    if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
        raise ApiError(Error.UNKNOWN_SERVER_ERROR, "All producer ids of 64 bits have been given away.")
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Verdict([record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE))
