"""Has a response name the throttle time of its client (KIP-13, 124, 219).

``request_processor`` mutes the connection for that time when the response is queued;
``gateway.broker.quotas`` decides how long it is.
"""

from __future__ import annotations

import copy
import functools
import struct
from typing import TYPE_CHECKING, Any, Final

from gateway.ports.encoded import PartlyEncoded
from gateway.ports.pending_response import NoResponse
from gateway.server.clients.response_scheduler import EncodedResponse
from kwire.registry import response_type

if TYPE_CHECKING:
    from gateway.server.clients.dispatch import InFlightRequest

_time: Final = struct.Struct(">i")
#: A throttle time that no encoded default looks like.
_MARK: Final = 0x5A5A5A5A


def throttled(in_flight: InFlightRequest, response: Any) -> Any:
    """Count the request in the quotas of its client, and return the response with the throttle
    time: ``in_flight.quota.throttle_ms`` has it.
    """
    quota = in_flight.quota
    assert quota is not None, "the caller has looked"
    if isinstance(response, NoResponse):
        # Only Produce without acks: its time is not counted (``handleProduceRequest``).
        quota.is_exempt = True
        quota.answered()
        return response
    message: Any = response.message if isinstance(response, PartlyEncoded) else response
    throttle_ms = quota.answered(getattr(message, "throttle_time_ms", 0))
    if not throttle_ms:
        return response
    if isinstance(response, EncodedResponse):
        if _begins_with_time(in_flight.api_key, in_flight.version):
            response = ThrottledResponse(response, throttle_ms)
    elif isinstance(response, PartlyEncoded):
        message.throttle_time_ms = throttle_ms
    elif message.throttle_time_ms != throttle_ms:
        # A copy: a handler may keep its response for others.
        response = copy.copy(response)
        response.throttle_time_ms = throttle_ms
    return response


class ThrottledResponse(EncodedResponse):
    """An encoded response with another throttle time, which is its first field."""

    __slots__ = ("_throttle_ms",)

    def __init__(self, response: EncodedResponse, throttle_ms: int) -> None:
        super().__init__(response.body, response.errors)
        self._throttle_ms = throttle_ms

    def encode_parts(self, version: int) -> list[Any]:
        """As ``Message.encode_parts``."""
        first, *rest = self.body.chunks
        return [_time.pack(self._throttle_ms), memoryview(first)[_time.size :], *rest]


@functools.cache
def _begins_with_time(api_key: int, version: int) -> bool:
    """Whether a response of ``version`` begins with its throttle time."""
    made: Any = response_type(api_key)()
    made.throttle_time_ms = _MARK
    is_first: bool = made.encode(version).startswith(_time.pack(_MARK))
    return is_first
