"""Fetches of a replica, whoever is asked, and what every answer to one is checked for (KIP-595).
Keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.address import Address
from gateway.quorum import error_messages, requests, response_checks, transitions
from gateway.quorum.effects import Failure, FailureKind
from gateway.quorum.errors import ErrorCode, error_name
from gateway.quorum.node import Node
from gateway.quorum.partition import Position
from gateway.quorum.peers import OnFailed
from gateway.quorum.response_checks import InvalidResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse, PartitionData

#: What an answer is given to: (log end it was asked for, when it was asked, message, version) -> as
#: ``peers.OnAnswer``.
OnFetched = Callable[[Position, float, Any, int], bool | None]


def fetch(
    node: Node,
    address: Address,
    node_id: int,
    on_answer: OnFetched,
    *,
    max_wait_ms: int,
    high_watermark: int = -1,
    position: Position | None = None,
    on_failed: OnFailed | None = None,
) -> None:
    """Fetch from ``address`` what follows the log's end, or ``position``; ``high_watermark``: as
    that leader last told.

    The offset is an acknowledgement: everything below it is durable before it leaves (KAFKA-10533).
    """
    settings, log_end = node.settings, node.log.end
    if (
        high_watermark < 0
    ):  # KIP-1166: a leader that is ahead of it answers at once; -1 would make it answer again and again
        high_watermark = node.high_watermark or -1
    request = partial(
        requests.fetch,
        cluster_id=node.cluster_id,
        replica=node.replica,
        epoch=node.epoch,
        log_end=position or log_end,
        high_watermark=high_watermark,
        max_wait_ms=max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
    )
    answered = partial(on_answer, log_end, node.now)
    key, versions = FetchRequest.API_KEY, requests.FETCH_VERSIONS
    node.ask(
        address, node_id, key, versions, request, answered, after=node.token, on_failed=on_failed
    )


def only_partition(node: Node, address: Address, sender: str, message: Any) -> PartitionData | None:
    """The one partition of a response; None where it cannot be used."""
    assert isinstance(message, FetchResponse), message
    try:
        if message.error_code:
            refused(node, address, sender, message.error_code)
            return None
        return response_checks.fetched_partition(message)
    except InvalidResponse as problem:
        node.protocol_violation(sender, str(problem))
        node.back_off()
        return None


def refused(node: Node, address: Address, sender: str, error: int) -> None:
    """A Fetch or FetchSnapshot was refused as a whole.

    Only an administrator can mend what an observer is refused for: another cluster stops it, and a
    missing permission makes it wait. A voter goes on asking, because its other peers may be right.
    """
    observer = node.settings.observer
    node.back_off()
    if (
        observer is not None
        and error == ErrorCode.INCONSISTENT_CLUSTER_ID
        and node.cluster_id is not None
    ):
        node.stop(error_messages.other_cluster(node.cluster_id, None, address))
    elif observer is not None and error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        denied(node, address, error_messages.not_authorized(address, observer.principal))
    else:
        node.protocol_violation(sender, f"a request refused with {error_name(error)}")


def failed(node: Node, address: Address, failure: Failure) -> None:
    """No response came to a request of an observer."""
    node.back_off()
    if failure.kind is FailureKind.UNAUTHORIZED:
        denied(node, address, error_messages.not_authenticated(address, failure.text))
    else:
        node.report_once(
            "request failed", address=str(address), kind=failure.kind.value, reason=failure.text
        )


def denied(node: Node, address: Address, reason: str) -> None:
    """An administrator has to allow it first: the address is left alone for a while."""
    assert node.settings.observer is not None, "only an observer waits for an administrator"
    node.report_once("access denied", address=str(address), reason=reason)
    node.peers.rest(address, node.now, node.settings.observer.denied_backoff_s)


def handle_leader_and_epoch(
    node: Node, sender: str, partition: Any, message: Any, asked: Address | None = None
) -> bool:
    """Take over epoch and leader of a Fetch or FetchSnapshot response. May the rest of it be
    used?
    """
    leader = partition.current_leader
    return transitions.handle_common_response(
        node,
        sender,
        partition.error_code,
        leader.leader_epoch,
        leader.leader_id,
        message.node_endpoints,
        asked,
    )
