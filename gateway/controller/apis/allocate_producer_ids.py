"""AllocateProducerIds: gives a broker a block of producer ids, each of them once in the cluster
(``ProducerIdControlManager``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import AdminApi, Refusal
from gateway.controller.brokers import check_broker_epoch
from gateway.controller.errors import ApiError
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kwire.messages.producer_ids_record import ProducerIdsRecord
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

#: ``ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE``.
BLOCK_SIZE: Final = 1_000
_PRODUCER_ID_MAX: Final = 2**63 - 1


def allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: ControllerRequestContext
) -> ControllerResult:
    """Return the next block. Raises ApiError where the broker is not registered, or no ids are
    left.
    """
    # A block for a broker that was replaced would be lost: its new incarnation asks for another
    # one.
    check_broker_epoch(request.broker_id, request.broker_epoch, context.image)
    # -1 before the first block. The record holds where the next block begins, and not the block
    # given.
    first = max(0, context.image.next_producer_id)
    # Ids do not wrap around: brokers would take a second producer with an id for the first one.
    if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids of 64 bits have been given away."
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    return ControllerResult(
        [record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    )


def _refuse(request: AllocateProducerIdsRequest, refusal: Refusal) -> Message:
    return AllocateProducerIdsResponse(error_code=refusal.error)


API: Final = AdminApi(
    key=ApiKey.ALLOCATE_PRODUCER_IDS,
    operation="allocateProducerIds",
    decide=allocate_producer_ids,
    refuse=_refuse,
    cluster_operation="CLUSTER_ACTION",
)
