"""Tells the active controller where this node listens (``ControllerRegistrationManager``, KIP-919),
once a life.

What it said stands in the log, so that every node can name all of them to its clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.handlers.api_versions import OWN_FEATURES
from gateway.handlers.context import PendingResponse
from gateway.ports import Requester
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

    from gateway.ports import Controllers, Endpoint, Quorum
    from gateway.server.logs import Reports
    from kwire.message import Message

#: Between two looks at whether this node is known, before and after it is, s.
_LOOK_S: Final = 0.1
_KNOWN_LOOK_S: Final = 1.0
#: How long an answer is waited for, s.
_ANSWER_S: Final = 5.0


def registration(
    node_id: int, incarnation: Uuid, endpoints: Sequence[Endpoint]
) -> ControllerRegistrationRequest:
    """What a node says of itself. The first endpoint is the one that other controllers and their
    tools are sent to.
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


async def keep_registered(
    request: ControllerRegistrationRequest,
    quorum: Quorum,
    controllers: Controllers,
    requester: Requester,
    reports: Reports,
) -> None:
    """Register, and again should the log say something else of this node; for ever."""
    while True:
        image = quorum.image
        known = image.controllers.get(request.controller_id)
        if known is not None and known.incarnation_id == request.incarnation_id:
            await trio.sleep(_KNOWN_LOOK_S)
            continue
        if is_controller_registration_supported(image.metadata_version) and quorum.leader_id >= 0:
            answer = await _ask(request, controllers, requester)
            if answer is not None and answer.error_code:
                reports.report(
                    "node not registered",
                    error=answer.error_message or str(answer.error_code),
                )
            if answer is not None:  # what was committed is in the image soon
                await trio.sleep(_KNOWN_LOOK_S)
        await trio.sleep(_LOOK_S)


async def _ask(request: Message, controllers: Controllers, requester: Requester) -> Any:
    answered = trio.Event()
    answers: list[Any] = []

    def take(answer: Any) -> None:
        answers.append(answer)
        answered.set()

    pending = PendingResponse()
    controllers.submit(request, 0, requester, pending)
    pending.attach(take)
    with trio.move_on_after(_ANSWER_S):
        await answered.wait()
    pending.cancel()
    return answers[0] if answers else None
