"""Hands the requests of KRaft (KIP-595, KIP-630, KIP-853) to this node's quorum.

It serves them on controller listeners only, and authorizes them: CLUSTER_ACTION for those of nodes,
ALTER for changes of voters. ``gateway.quorum`` makes the responses. Fetch here is that of a
replica; a consumer's is in ``gateway.handlers.apis.fetch``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.context import Handler
from gateway.ports.pending_response import PendingResponse
from kwire.protocol import ApiKey, ErrorCode
from kwire.registry import response_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.handlers.context import Context
    from kwire.message import Message


#: Elements of one request at most. It names one partition and the voters, of which there are some
#: ten, so a request with 100,000 candidates is refused before it is decoded.
ELEMENTS_MAX: Final = 5000


def _handler(
    api_key: int, name: str, versions: range, operation: Operation = Operation.CLUSTER_ACTION
) -> Handler:
    return Handler(
        api_key,
        name,
        versions,
        _asking(api_key, operation),
        elements_max=ELEMENTS_MAX,
    )


def _asking(
    api_key: int, operation: Operation
) -> Callable[[Any, Context], Message | PendingResponse]:
    def ask(request: Message, context: Context) -> Message | PendingResponse:
        if not may_on_cluster(context, operation):
            refused: Any = response_type(api_key)
            return refused(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # type: ignore[no-any-return]
        peers = context.gateway.raft or context.gateway.relay
        assert peers is not None, "a controller listener without a quorum"
        pending = PendingResponse()
        peers.ask(request, context.version, context.peer.listener, pending)
        return pending

    return ask


HANDLERS: Final = (
    _handler(ApiKey.FETCH, "fetch", range(12, 19)),
    _handler(ApiKey.VOTE, "vote", range(3)),
    _handler(ApiKey.BEGIN_QUORUM_EPOCH, "begin_quorum_epoch", range(2)),
    _handler(ApiKey.END_QUORUM_EPOCH, "end_quorum_epoch", range(2)),
    _handler(ApiKey.FETCH_SNAPSHOT, "fetch_snapshot", range(2)),
    # Not passed on to the leader, as a broker does: a controller that does not lead says so.
    _handler(ApiKey.DESCRIBE_QUORUM, "describe_quorum", range(3), Operation.DESCRIBE),
    _handler(ApiKey.ADD_RAFT_VOTER, "add_raft_voter", range(2), Operation.ALTER),
    _handler(ApiKey.REMOVE_RAFT_VOTER, "remove_raft_voter", range(1), Operation.ALTER),
    _handler(ApiKey.UPDATE_RAFT_VOTER, "update_raft_voter", range(1)),
)
