"""Checks the listeners and the node id of a registration.

Every Kafka node that reads a record with an invalid listener fails to load it, so the controller
must not write one. This module knows neither brokers nor controllers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from gateway.controller.errors import ApiError
from kwire.protocol import ErrorCode

#: Ids of ``SecurityProtocol``: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.
_PROTOCOLS: Final = range(4)


class Listener(Protocol):
    """A listener of BrokerRegistrationRequest or ControllerRegistrationRequest."""

    name: str
    host: str
    port: int
    security_protocol: int


_L = TypeVar("_L", bound=Listener)


def checked_listeners(listeners: Iterable[_L]) -> list[_L]:
    """Return the listeners, of those with the same name the last one.

    Raises ApiError INVALID_REGISTRATION for a listener that ``ListenerInfo`` or
    ``BrokerRegistration`` would not accept from the log.
    """
    # ListenerInfo keeps listeners in a map by name.
    named = {one.name: one for one in listeners}
    for one in named.values():
        if not one.name:
            raise _invalid("Listeners must be named.")
        if one.security_protocol not in _PROTOCOLS:
            raise _invalid(
                f"Unknown security protocol {one.security_protocol} in listener {one.name}."
            )
        # ``ListenerInfo`` takes 0 for a port that was not resolved yet.
        if not one.port:
            raise _invalid(f"Listener {one.name} has no port.")
    return list(named.values())


def check_id(node_id: int) -> None:
    """Raise ApiError INVALID_REGISTRATION for a negative id.

    Kafka takes it, but -1 means no node in records and responses.
    """
    if node_id < 0:
        raise _invalid(f"A node's id is not negative: {node_id}.")


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGISTRATION, why)
