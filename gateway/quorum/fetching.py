"""Sends the Fetch of a replica, and checks what all Fetch responses have in common (KIP-595).

It keeps no state. ``following`` and ``leader_discovery`` use the rest of the response.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.base.address import Address
from gateway.base.error_text import error_with_code
from gateway.quorum import (
    error_messages,
    leader_distance,
    requests,
    response_checks,
    transitions,
)
from gateway.quorum.effects import Failure, FailureKind
from gateway.quorum.node import Node
from gateway.quorum.partition import Position
from gateway.quorum.peers import OnFailed
from gateway.quorum.response_checks import InvalidResponse
from gateway.quorum.roles import Follower
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse, PartitionData
from kwire.protocol import ErrorCode

#: (the log end that the Fetch named, when it was sent, message, version) -> as ``peers.OnAnswer``.
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
    """Fetch from ``address`` the records after the log's end, or after ``position``.

    ``high_watermark`` is the last one that this leader reported, -1 for none.
    """
    settings, log_end = node.settings, node.log.end
    # A leader answers at once while its high watermark is above the one in the request (KIP-1166).
    # With -1 it would do so each time, and the two nodes would exchange empty responses in a loop.
    # Kafka's nodes send -1 until they know a high watermark.
    if high_watermark < 0:
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
    # The log's end goes with the request: the response fits no other one
    # (``Following._handle_partition``).
    answered = partial(on_answer, log_end, node.now)
    key, versions = FetchRequest.API_KEY, requests.FETCH_VERSIONS
    # The fetch offset acknowledges everything below it, so the request waits until all of that is
    # durable (KAFKA-10533). An observer's waits too: it may become a voter at any time (KIP-853).
    node.ask(
        address, node_id, key, versions, request, answered, after=node.token, on_failed=on_failed
    )


def only_partition(node: Node, address: Address, sender: str, message: Any) -> PartitionData | None:
    """Return the partition of a response; None, and back off, if the response cannot be used."""
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
    """Handle a Fetch or FetchSnapshot that was refused as a whole."""
    # Only an administrator can remove what an observer is refused for: it stops for another
    # cluster, and waits for a permission. A voter asks on, because its other peers may accept it.
    observer = node.settings.observer
    # Counted before the error is looked at, so that no refusal can be repeated without a pause.
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
        node.protocol_violation(sender, f"a request refused with {error_with_code(error)}")


def failed(node: Node, address: Address, failure: Failure) -> None:
    """Handle an observer's request that got no response."""
    node.back_off()
    if failure.kind is FailureKind.UNAUTHORIZED:
        denied(node, address, error_messages.not_authenticated(address, failure.text))
    else:
        node.report_once(
            "request failed", address=str(address), kind=failure.kind.value, reason=failure.text
        )


def leader_failed(node: Node, role: Follower, failure: Failure) -> None:
    """Handle a voter's Fetch without a response: campaign at once if the leader's process is gone.

    Kafka waits for the fetch timeout. A leader whose process has ended leads no more, even if it
    starts again, and the pre-vote protects one that lives: the other followers refuse it while
    their leader answers them (KIP-996).
    """
    # Only a leader that has answered: after a pre-vote that was refused this node waits. Other
    # failures may be those of a connection, or of a leader that is busy.
    if failure.kind is FailureKind.REFUSED and role.fetched and node.may_campaign:
        role.fetch_until = min(role.fetch_until, node.now)


def denied(node: Node, address: Address, reason: str) -> None:
    """Report that an administrator must grant access, and send the address no requests for
    ``denied_backoff_s``.
    """
    assert node.settings.observer is not None, "only an observer waits for an administrator"
    node.report_once("access denied", address=str(address), reason=reason)
    node.peers.rest(address, node.now, node.settings.observer.denied_backoff_s)


def handle_leader_and_epoch(
    node: Node, sender: str, partition: Any, message: Any, asked: Address | None = None
) -> bool:
    """Take the epoch and leader of a Fetch or FetchSnapshot response; return whether the rest of it
    can be used. An observer notes how far from the leader it was made.
    """
    try:
        distance = leader_distance.read(message)
    except InvalidResponse as problem:
        node.protocol_violation(sender, str(problem))
        node.back_off()
        return False
    leader = partition.current_leader
    usable = transitions.handle_common_response(
        node,
        sender,
        partition.error_code,
        leader.leader_epoch,
        leader.leader_id,
        message.node_endpoints,
        asked,
    )
    if usable and node.settings.observer is not None:
        node.distance = distance
    return usable
