"""InitProducerId (key 22): gives an idempotent producer its id (KIP-98), and a transactional one
the next epoch, which fences its predecessor.

A server that is no broker refuses every producer. Version 6, with which a producer recovers a
prepared transaction (KIP-939), is not advertised, as in Kafka. Source:
``KafkaApis.handleInitProducerIdRequest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.events import InitProducer, ProducerResult
from gateway.broker.transactions.transaction import NO_EPOCH, NO_PRODUCER_ID, Producer
from gateway.handlers.access import Operation, may, may_on_cluster
from gateway.handlers.catalog import controller_image
from gateway.handlers.transaction_requests import ask, error_for, may_on_transaction
from gateway.ports.pending_response import PendingResponse
from kwire.messages.init_producer_id_response import InitProducerIdResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer, Work
    from kwire.messages.init_producer_id_request import InitProducerIdRequest

API_KEY: Final = ApiKey.INIT_PRODUCER_ID
VERSIONS: Final = range(6)
_FIRST_WITH_FENCED: Final = 4
#: How long an id is waited for, s: the controller allocates a block of them.
_TIMEOUT_S: Final = 30.0


def handle(request: InitProducerIdRequest, context: Context) -> Answer:
    """Return a new id with epoch 0, or the producer that a transactional id has from now on."""
    # Java's producer is idempotent by default, and sends this first. It hands the two authorization
    # errors to the application as they are; others become "unexpected error".
    if request.transactional_id is not None:
        return _transactional(request, request.transactional_id, context)
    if context.gateway.producer_ids is None:
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if may_on_cluster(context, Operation.IDEMPOTENT_WRITE):
        return _allocated(context)
    return _allocated_to_writers(context)


def _transactional(request: InitProducerIdRequest, name: str, context: Context) -> Answer:
    if not may_on_transaction(context, Operation.WRITE, name):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    expected = Producer(request.producer_id, request.producer_epoch)
    is_new = expected == (NO_PRODUCER_ID, NO_EPOCH)
    if not is_new and (expected.producer_id == NO_PRODUCER_ID or expected.epoch == NO_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    event = InitProducer(
        name,
        request.transaction_timeout_ms,
        None if is_new else expected,
        request.enable2_pc,
        request.keep_prepared_txn,
    )

    def respond(result: ProducerResult) -> InitProducerIdResponse:
        return InitProducerIdResponse(
            error_code=error_for(result.error, context, _FIRST_WITH_FENCED),
            producer_id=result.producer_id,
            producer_epoch=result.epoch,
        )

    return ask(context, event, respond)


def _allocated_to_writers(context: Context) -> Work:
    """Return an id if the client may write to any topic: it may be idempotent there (KIP-679)."""
    image = controller_image(context)
    for name in [] if image is None else list(image.topic_ids):
        if may(context, Operation.WRITE, name):
            return _allocated(context)
        yield None
    return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _allocated(context: Context) -> PendingResponse:
    pending = PendingResponse(
        deadline=context.now + _TIMEOUT_S,
        expire=lambda: _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    )

    def take(found: int | ErrorCode) -> None:
        pending.complete(
            _refused(found)
            if isinstance(found, ErrorCode)
            else InitProducerIdResponse(producer_id=found, producer_epoch=0)
        )

    assert context.gateway.producer_ids is not None, "a broker gives out ids"
    context.gateway.producer_ids.allocate(take)
    return pending


def _refused(fault: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=fault, producer_id=-1, producer_epoch=-1)
