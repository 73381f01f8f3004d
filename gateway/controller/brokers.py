"""Checks broker epochs, and makes the records that fence and unfence brokers
(``ClusterControlManager``).

It knows no request. The changes of partitions that go with them are in ``leader_election``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.base.slices import Slices
from gateway.controller.errors import ApiError
from gateway.controller.leader_election import on_fenced
from gateway.controller.sessions import Registered
from kwire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.controller.records import Operation
    from gateway.controller.request_context import ControllerRequestContext
    from kwire.cluster import Image
    from kwire.message import Message
    from kwire.messages.register_broker_record import RegisterBrokerRecord

#: ``BrokerRegistrationFencingChange`` and ``BrokerRegistrationInControlledShutdownChange``; 0 is no
#: change.
FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1


def check_broker_epoch(broker_id: int, epoch: int, image: Image) -> RegisterBrokerRecord:
    """Return the registration of the broker. Raises ApiError STALE_BROKER_EPOCH if it has no
    registration, or another epoch.

    The epoch keeps a broker that was replaced by a new incarnation from changing anything.
    """
    # One error for both cases: real Kafka 4.3 answers STALE_BROKER_EPOCH to an unknown id, too.
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
    """Return the key of the broker's session: a new registration begins a new session."""
    return Registered(broker.broker_id, broker.broker_epoch)


def unfenced(image: Image) -> Iterator[Registered]:
    """Yield the brokers that are not fenced, those in controlled shutdown included."""
    return (registered(broker) for broker in image.brokers.values() if not broker.fenced)


def change(
    broker: RegisterBrokerRecord, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    """Return the record that changes a registration (KIP-841)."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        # Kafka's nodes fail on a change of another epoch (``ClusterDelta.getBrokerOrThrow``).
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def fence(broker: RegisterBrokerRecord, context: ControllerRequestContext) -> Slices[list[Message]]:
    """Return the records that fence a broker (``handleBrokerFenced``), in slices."""
    # The partitions first: the records are not atomic, and if this controller fails between two of
    # them the broker is still unfenced, so that the next controller fences it again.
    records = yield from on_fenced(broker.broker_id, context)
    # Not a new list: the garbage collector would go through it three times.
    records.append(change(broker, fenced=FENCE))
    return records


def fenced_by(operation: Operation) -> Iterator[Registered]:
    """Yield the brokers that an operation fences, those included that are fenced already."""
    for message, _ in operation.records:
        if isinstance(message, BrokerRegistrationChangeRecord) and message.fenced == FENCE:
            yield Registered(message.broker_id, message.broker_epoch)


def expire_one(context: ControllerRequestContext) -> Slices[list[Message]]:
    """Return the records that fence the broker with the oldest heartbeat, if its session has ended;
    none otherwise (``maybeFenceOneStaleBroker``).

    One broker at a time, so that the elections for the next one know that this one is fenced.
    """
    while (silent := context.sessions.expired(context.steady_ms)) is not None:
        # Before it is looked at: a session without a registration must not be found again.
        context.sessions.forget(silent)
        broker = context.image.brokers.get(silent.broker_id)
        # A broker that has registered again, or was unregistered, has another session or none.
        if broker is not None and broker.broker_epoch == silent.epoch:
            records = yield from fence(broker, context)
            return records
    return []
