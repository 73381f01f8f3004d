"""Wraps a client's request in an Envelope for the active controller and unwraps the response
(KIP-590), and counts forwarded requests.

It knows no connection: ``controller_forwarder`` sends the envelopes.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.security.principal import Principal, encode_principal
from gateway.server.node_client.errors import BadAnswer
from gateway.server.scheduling.duration_stats import DurationStats
from kwire.errors import DecodeError
from kwire.header import decode_response_header, encode_request_header
from kwire.messages.envelope_request import EnvelopeRequest
from kwire.protocol import error_name
from kwire.registry import response_type

if TYPE_CHECKING:
    from gateway.ports.services import Requester
    from kwire.message import Message
    from kwire.messages.envelope_response import EnvelopeResponse

#: Maximum number of array elements and unknown tagged fields in a response: it bounds the time that
#: decoding takes.
_RESPONSE_MAX_ELEMENTS: Final = 1_000_000
#: Correlation id of the request inside an envelope. The envelope's own id finds the response, so
#: that of its content is never looked up.
_CORRELATION_ID: Final = 0


class ForwardingRefused(Exception):
    """The leader refused the envelope and did not carry out the request in it. ``error``: the code
    of its response; the text is Kafka's name of it.
    """

    def __init__(self, code: int) -> None:
        self.error = code
        super().__init__(error_name(code))


def wrap(request: Message, version: int, requester: Requester) -> EnvelopeRequest:
    """Wrap ``request`` of ``requester`` in an envelope. Raises EncodeError; ValueError if the
    principal or the address of the requester cannot be encoded.
    """
    assert request.API_KEY is not None, "only requests are forwarded"
    head = encode_request_header(request.API_KEY, version, _CORRELATION_ID, requester.client_id)
    return EnvelopeRequest(
        request_data=head + request.encode(version),
        request_principal=encode_principal(
            Principal(requester.principal, requester.token_authenticated)
        ),
        client_host_address=ipaddress.ip_address(requester.host).packed,
    )


def unwrap(api_key: int, version: int, envelope: EnvelopeResponse, who: str) -> Message:
    """Return the response in ``envelope`` to a request of ``api_key``.

    Raises ForwardingRefused; BadAnswer, naming ``who``, if it cannot be decoded.
    """
    if envelope.error_code:
        raise ForwardingRefused(envelope.error_code)
    data = bytes(envelope.response_data or b"")
    try:
        _, at = decode_response_header(api_key, version, data, budget=_RESPONSE_MAX_ELEMENTS)
        answer, _ = response_type(api_key).decode_from(
            data, version, at, budget=_RESPONSE_MAX_ELEMENTS
        )
    except DecodeError as error:
        raise BadAnswer(who, f"the answer in its envelope cannot be read: {error}") from None
    return answer


@dataclass(slots=True)
class ForwardingMetrics:
    """Figures of Kafka's ``ForwardingManagerMetrics``, and further ones that KIP-590 names."""

    #: Times from a client's request until it was sent to the leader.
    queue: DurationStats = field(default_factory=DurationStats)
    #: Times from then until the leader's response.
    remote: DurationStats = field(default_factory=DurationStats)
    #: Requests without a response so far, by client id.
    waiting: Counter[str | None] = field(default_factory=Counter)
    forwarded: int = 0  #: requests that were sent to a leader
    unauthorized: int = 0  #: of these, refused because this node may not forward

    @property
    def queue_length(self) -> int:
        """Number of requests without a response so far."""
        return self.waiting.total()

    def begins(self, client_id: str | None) -> None:
        """Count a request of a client that is to be forwarded."""
        self.waiting[client_id] += 1

    def ends(self, client_id: str | None) -> None:
        """Count it no longer: it was answered or given up."""
        self.waiting[client_id] -= 1
        if not self.waiting[client_id]:
            # Clients choose their ids: an entry that stays would be a leak that they control.
            del self.waiting[client_id]
