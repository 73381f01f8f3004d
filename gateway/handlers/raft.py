"""The APIs by which the nodes of a quorum keep one log: KIP-595, 630 and 853. On controller listeners only.

They go to the core as they are, once who asks may act for the cluster; what it answers is told in ``gateway.quorum.raft``.
Fetch here is a replica's: what consumers are given is another handler's affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.context import Later
from gateway.handlers.errors import ErrorCode
from gateway.handlers.table import Handler
from kwire.registry import response_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.handlers.context import Context
    from kwire.message import Message


def _handler(api_key: int, name: str, versions: range, operation: Operation = Operation.CLUSTER_ACTION) -> Handler:
    return Handler(api_key, name, versions, _asking(api_key, operation))


def _asking(api_key: int, operation: Operation) -> Callable[[Any, Context], Message | Later]:
    def ask(request: Message, context: Context) -> Message | Later:
        if not may_on_cluster(context, operation):
            refused: Any = response_type(api_key)
            return refused(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # type: ignore[no-any-return]
        assert context.gateway.raft is not None, "a controller listener without a quorum"
        later = Later()
        context.gateway.raft.ask(request, context.version, context.peer.listener, later)
        return later

    return ask


HANDLERS: Final = (
    _handler(1, "fetch", range(12, 19)),
    _handler(52, "vote", range(3)),
    _handler(53, "begin_quorum_epoch", range(2)),
    _handler(54, "end_quorum_epoch", range(2)),
    _handler(59, "fetch_snapshot", range(2)),
    _handler(80, "add_raft_voter", range(2), Operation.ALTER),
    _handler(81, "remove_raft_voter", range(1), Operation.ALTER),
    _handler(82, "update_raft_voter", range(1)),
)
