"""InitProducerId (key 22): refused, as a server without producers has no producer ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.context import Handler
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message


def _init_producer_id(request: Any, context: Context) -> Message:
    from kwire.messages.init_producer_id_response import InitProducerIdResponse

    # Java's producer is idempotent by default, and sends this first. It hands the two authorization
    # errors to the application as they are; others become "unexpected error".
    idempotent = request.transactional_id is None
    fault = (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if idempotent
        else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    return InitProducerIdResponse(error_code=fault, producer_id=-1, producer_epoch=-1)


HANDLERS: Final = (
    Handler(ApiKey.INIT_PRODUCER_ID, "init_producer_id", range(6), _init_producer_id),
)
