"""What the handlers of changes share: to whom the request goes, and what is said where nothing can be changed.

Who may do what is asked where the request is carried out. It knows no API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.context import Later
from gateway.handlers.errors import ErrorCode
from gateway.handlers.refusals import REASON, REFUSED
from gateway.ports import Asker

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message

#: For requests that say no time themselves, ms (a client's ``default.api.timeout.ms``).
TIMEOUT_MS: Final = 60_000
#: Longest wait, ms: what a client names in 32 bits may be 24 days.
TIMEOUT_MS_MAX: Final = 300_000


def ask_controller(request: Message, context: Context, timeout_ms: int = TIMEOUT_MS) -> Message | Later:
    """Have the active controller carry out ``request``; refused where the log is written by others.

    REQUEST_TIMED_OUT after ``timeout_ms`` without an answer: nobody knows then whether it was done.
    """
    from gateway.controller.refusals import refused  # answers of APIs that most servers are never asked

    controller = context.gateway.controller
    if controller is None:
        return refused(request, context.version, REFUSED, REASON)
    peer = context.peer
    if context.gateway.is_for_controllers(peer.listener) and not controller.is_active:
        # As a controller of Kafka: whoever asks there looks for the active one, and a request must not go round in a circle.
        return refused(request, context.version, ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
    timeout_s = max(0, min(timeout_ms, TIMEOUT_MS_MAX)) / 1000
    why = f"The controller did not answer within {timeout_s:.3f} s: the change may have been made, or be made yet."
    later = Later(
        deadline=context.now + timeout_s,
        expire=lambda: refused(request, context.version, ErrorCode.REQUEST_TIMED_OUT, why),
    )
    asker = Asker(peer.principal, peer.host, context.client_id, peer.token_authenticated, peer.listener, peer.forwarder)
    controller.submit(request, context.version, asker, later)
    return later
