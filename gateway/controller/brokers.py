"""Registered brokers: which of them may speak, and the records of their coming and going
(``ClusterControlManager``).

It knows no request. What becomes of partitions is decided in ``leader_election``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.controller.errors import ApiError
from gateway.controller.leader_election import on_fenced
from gateway.controller.sessions import Registered
from gateway.slices import Slices
from kwire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.controller.records import Operation
    from gateway.controller.request_context import ControllerRequestContext
    from kwire.cluster import Image
    from kwire.message import Message
    from kwire.messages.register_broker_record import RegisterBrokerRecord

#: ``BrokerRegistrationFencingChange`` and ``BrokerRegistrationInControlledShutdownChange``.
FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1


def check_broker_epoch(broker_id: int, epoch: int, image: Image) -> RegisterBrokerRecord:
    """The registration of the broker that says it has this epoch. Raises ApiError
    STALE_BROKER_EPOCH for any other.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}"
        )
    if broker.broker_epoch != epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {epoch}",
        )
    return broker


def registered(broker: RegisterBrokerRecord) -> Registered:
    """The registration that sessions are of."""
    return Registered(broker.broker_id, broker.broker_epoch)


def unfenced(image: Image) -> Iterator[Registered]:
    """Every broker that serves, those that are about to leave too."""
    return (registered(broker) for broker in image.brokers.values() if not broker.fenced)


def change(
    broker: RegisterBrokerRecord, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    """The record that changes a registration."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def fence(broker: RegisterBrokerRecord, context: ControllerRequestContext) -> Slices[list[Message]]:
    """The records by which a broker stops to serve (``handleBrokerFenced``): its partitions first,
    so that a leader that has written only some of them leaves it to the next one to go on.
    """
    records = yield from on_fenced(broker.broker_id, context)
    return [*records, change(broker, fenced=FENCE)]


def fenced_by(operation: Operation) -> Iterator[Registered]:
    """The brokers that an operation fences, those too that are already."""
    for message, _ in operation.records:
        if isinstance(message, BrokerRegistrationChangeRecord) and message.fenced == FENCE:
            yield Registered(message.broker_id, message.broker_epoch)


def expire_one(context: ControllerRequestContext) -> Slices[list[Message]]:
    """Fence the broker that has been silent longest, if that is too long; none where nobody is. Who
    came again since is passed over.

    One at a time, so that the next one is fenced in a cluster without this one
    (``maybeFenceOneStaleBroker``).
    """
    while (silent := context.sessions.expired(context.steady_ms)) is not None:
        context.sessions.forget(silent)
        broker = context.image.brokers.get(silent.broker_id)
        if broker is not None and broker.broker_epoch == silent.epoch:
            records = yield from fence(broker, context)
            return records
    return []
