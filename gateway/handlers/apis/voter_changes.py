"""Passes AddRaftVoter and RemoveRaftVoter of clients to the leader of this node's quorum (KIP-853),
as Kafka's brokers do (``ForwardingManager``).

The leader authorizes them: ALTER on the cluster. On controller listeners
``gateway.handlers.apis.raft`` serves them, and does not pass them on. UpdateRaftVoter is for nodes
only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.controller.admin_api import TIMEOUT_MS, Refusal
from gateway.handlers.apis.controller_requests import submit
from gateway.handlers.apis.raft import ELEMENTS_MAX
from gateway.handlers.context import Handler
from gateway.handlers.refusals import REASON, REFUSED
from kwire.protocol import ApiKey
from kwire.registry import response_type

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import PendingResponse
    from kwire.message import Message

_VERSIONS: Final = {ApiKey.ADD_RAFT_VOTER: range(2), ApiKey.REMOVE_RAFT_VOTER: range(1)}
#: The keys of requests that change the voters of the quorum.
VOTER_CHANGES: Final = frozenset(_VERSIONS)


def refuse(request: Message, refusal: Refusal) -> Message:
    """Return the response to ``request`` with this error."""
    assert request.API_KEY is not None, "only requests are refused"
    response: Any = response_type(request.API_KEY)
    refused: Message = response(error_code=refusal.error, error_message=refusal.message)
    return refused


def change_voters(request: Message, context: Context) -> Message | PendingResponse:
    """Submit the change to the leader, whose response completes the pending one."""
    if context.gateway.controller is None:
        return refuse(request, Refusal(context.version, REFUSED, REASON))
    timeout_ms = getattr(request, "timeout_ms", TIMEOUT_MS)
    return submit(request, context, timeout_ms, partial(refuse, request))


HANDLERS: Final = tuple(
    Handler(key, key.name.lower(), versions, change_voters, elements_max=ELEMENTS_MAX)
    for key, versions in _VERSIONS.items()
)
