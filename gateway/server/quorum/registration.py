"""Registers this node's listeners with the active controller, once per process (KIP-919).

Follows Kafka's ``ControllerRegistrationManager``. The controller writes a
RegisterControllerRecord, from which every node answers DescribeCluster with all controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.handlers.apis.api_versions import OWN_FEATURES
from gateway.ports.services import Requester
from gateway.server.quorum.own_requests import OwnRequests
from kwire.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from kwire.protocol import SecurityProtocol
from kwire.protocol.metadata_version import is_controller_registration_supported
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.ports.services import Controllers, Endpoint, Quorum
    from gateway.server.logging.logs import Reports

#: Interval of the check whether the image has this registration, s: before it has, and after.
_CHECK_S: Final = 0.1
_REGISTERED_CHECK_S: Final = 1.0
#: Maximum time that a response is waited for, s.
_RESPONSE_S: Final = 5.0


def registration(
    node_id: int, incarnation: Uuid, endpoints: Sequence[Endpoint]
) -> ControllerRegistrationRequest:
    """The registration of a node. Other controllers and their tools connect to the first endpoint.

    ``incarnation`` is new for each process, as Kafka's, so that a restarted node registers again.
    """
    return ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation,
        listeners=[
            Listener(
                name=one.listener,
                host=one.host,
                port=one.port,
                security_protocol=SecurityProtocol[one.security_protocol],
            )
            for one in endpoints
        ],
        features=[
            Feature(
                name=one.name,
                min_supported_version=one.min_version,
                max_supported_version=one.max_version,
            )
            for one in OWN_FEATURES
        ],
    )


async def maintain_registration(
    request: ControllerRegistrationRequest,
    quorum: Quorum,
    controllers: Controllers,
    requester: Requester,
    reports: Reports,
) -> None:
    """Register this node, and again whenever the image has another registration of it; for ever."""
    requests = OwnRequests(controllers, requester, _RESPONSE_S)
    while True:
        image = quorum.image
        known = image.controllers.get(request.controller_id)
        if known is not None and known.incarnation_id == request.incarnation_id:
            await trio.sleep(_REGISTERED_CHECK_S)
            continue
        if is_controller_registration_supported(image.metadata_version) and quorum.leader_id >= 0:
            response = await requests.send(request, 0)
            if response is not None and response.error_code:
                reports.report(
                    "node not registered",
                    error=response.error_message or str(response.error_code),
                )
            if response is not None:  # the image has the committed record soon
                await trio.sleep(_REGISTERED_CHECK_S)
        await trio.sleep(_CHECK_S)
