"""What a client asked here and the active controller elsewhere is to do, in an Envelope and out of
it (KIP-590); in figures, too.

It knows no connection: who asks whom is ``gateway.server.controller.controller_forwarder``'s
affair.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.security.principal import Principal, encode_principal
from gateway.server.duration_stats import DurationStats
from gateway.server.upstream_errors import BadAnswer
from kwire.errors import DecodeError
from kwire.header import decode_response_header, encode_request_header
from kwire.messages.envelope_request import EnvelopeRequest
from kwire.protocol import error_name
from kwire.registry import response_type

if TYPE_CHECKING:
    from gateway.ports import Requester
    from kwire.message import Message
    from kwire.messages.envelope_response import EnvelopeResponse

#: Array elements and unknown tagged fields of one answer: what reading it may cost.
_ANSWER_MAX_ELEMENTS: Final = 1_000_000
#: One request is in one envelope: nobody looks for it by its correlation id.
_CORRELATION_ID: Final = 0


class ForwardingRefused(Exception):
    """The leader did not carry out what was in the envelope; ``error`` is why, as a code and in
    Kafka's word for it.
    """

    def __init__(self, code: int) -> None:
        self.error = code
        super().__init__(error_name(code))


def put_in(request: Message, version: int, requester: Requester) -> EnvelopeRequest:
    """The envelope around ``request`` of ``requester``. Raises EncodeError, ValueError for an asker
    who cannot be told of.
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


def take_out(api_key: int, version: int, envelope: EnvelopeResponse, who: str) -> Message:
    """The answer inside, to a request of ``api_key``. Raises ForwardingRefused; BadAnswer of
    ``who`` if there is none to read.
    """
    if envelope.error_code:
        raise ForwardingRefused(envelope.error_code)
    data = bytes(envelope.response_data or b"")
    try:
        _, at = decode_response_header(api_key, version, data, budget=_ANSWER_MAX_ELEMENTS)
        answer, _ = response_type(api_key).decode_from(
            data, version, at, budget=_ANSWER_MAX_ELEMENTS
        )
    except DecodeError as error:
        raise BadAnswer(who, f"the answer in its envelope cannot be read: {error}") from None
    return answer


@dataclass(slots=True)
class ForwardingMeasures:
    """``ForwardingManagerMetrics``, and what the text of KIP-590 names beside."""

    queue: DurationStats = field(
        default_factory=DurationStats
    )  #: from the client's request to its leaving for the leader
    remote: DurationStats = field(
        default_factory=DurationStats
    )  #: from that to the leader's answer
    waiting: Counter[str | None] = field(
        default_factory=Counter
    )  #: requests that are not answered yet, by client id
    forwarded: int = 0  #: requests that left for a leader
    unauthorized: int = 0  #: of these, refused because this node may not forward

    @property
    def queue_length(self) -> int:
        """Requests that are not answered yet."""
        return self.waiting.total()

    def begins(self, client_id: str | None) -> None:
        """A client's request is to be forwarded."""
        self.waiting[client_id] += 1

    def ends(self, client_id: str | None) -> None:
        """It is answered, or given up."""
        self.waiting[client_id] -= 1
        if not self.waiting[client_id]:
            del self.waiting[client_id]  # names are for clients to choose: keep none that is gone
