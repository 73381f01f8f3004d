"""What a message says of who leads which epoch, and what that makes of this node
(``maybeTransition``, KIP-595).

Epochs only rise, an epoch has one leader, and nobody is told by others that it leads. Knows nothing
else of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.address import Address
from gateway.quorum.checks import is_consistent_leader
from gateway.quorum.errors import ErrorCode, error_name
from gateway.quorum.node import EPOCH_MAX, NO_NODE, Node
from gateway.quorum.roles import Follower, Leader, Unattached

_REFUSALS = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def maybe_transition(
    node: Node, epoch: int, leader_id: int, endpoints: Mapping[str, Address]
) -> bool:
    """Take over an epoch and its leader (-1: unknown) that a peer named. False, and nothing
    happens, when neither can be.

    ``endpoints``: the leader's as far as they were given, by listener name.
    """
    if (
        not 0 <= epoch <= EPOCH_MAX
        or leader_id < NO_NODE
        or not is_consistent_leader(node, epoch, leader_id)
    ):
        return False
    if epoch < node.epoch or node.is_self(leader_id):
        return True
    if epoch > node.epoch or (
        leader_id != NO_NODE
        and (node.leader_id == NO_NODE or _finds_address(node, leader_id, endpoints))
    ):
        _follow(node, epoch, leader_id, endpoints)
    assert epoch <= node.epoch, "an epoch heard of is not forgotten"
    return True


def handle_common_response(
    node: Node,
    sender: str,
    error: int,
    epoch: int,
    leader_id: int,
    endpoints: Iterable[Any],
    asked: Address | None = None,
) -> bool:
    """Take over epoch and leader of a response. May the rest of it be used
    (``maybeHandleCommonResponse``)?

    ``asked``: the address that gave the response, where only a leader responds without an error. It
    is then the leader's, and beats what the leader advertises: behind a forwarded port the
    advertised address may not be reachable from here. Kafka below Fetch version 17 names no
    endpoints at all.
    """
    listener = node.settings.listener
    given: dict[str, Address] = {}
    for endpoint in endpoints:
        node.learn_address(endpoint.node_id, endpoint.host, endpoint.port)
        if endpoint.node_id == leader_id and endpoint.node_id in node.addresses:
            given[listener] = node.addresses[leader_id]
    if epoch < node.epoch:
        if error and node.settings.observer is not None:
            node.report_once("request refused", sender=sender, error=error_name(error))
        node.back_off()
        return False
    if node.settings.observer is not None and node.is_self(leader_id):
        node.learn_voters(frozenset({leader_id}))  # it stops: the replica id belongs to a voter
        return False
    if asked is not None and error == ErrorCode.NONE and leader_id != NO_NODE:
        given[listener] = asked
        if (
            node.settings.observer is not None
            and isinstance(node.role, Follower)
            and node.role.leader_id == leader_id
        ):
            node.role.endpoints = node.leader_endpoints = given
    moved = epoch > node.epoch
    before = node.epoch, node.leader_id
    if not maybe_transition(node, epoch, leader_id, given):
        node.protocol_violation(
            sender,
            f"it says that {leader_id} leads epoch {epoch}: here {node.leader_id} leads {node.epoch}",
        )
        if node.settings.observer is not None and epoch == node.epoch:
            node.back_off()
            node.become_unattached(
                epoch
            )  # it votes for neither: whichever responds as the leader is followed
        return False
    if node.settings.observer is not None and before != (node.epoch, node.leader_id):
        if node.leader_id == NO_NODE:
            node.retry.back_off(node.now)
        else:
            node.retry.leader_named(node.now)
    elif error:
        node.back_off()
    if error in _REFUSALS and not moved and node.settings.observer is not None:
        node.report_once("request refused", sender=sender, error=error_name(error))
    if error not in (
        ErrorCode.NONE,
        *_REFUSALS,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
    ):
        node.protocol_violation(sender, error_name(error))
    return error == ErrorCode.NONE and not moved


def _follow(node: Node, epoch: int, leader_id: int, endpoints: Mapping[str, Address]) -> None:
    assert not node.is_self(leader_id), "a node does not follow itself"
    if leader_id == NO_NODE:
        node.become_unattached(epoch)
        return
    found = _endpoints(node, leader_id, endpoints)
    if found is None:
        node.become_unattached(epoch, leader_id)
    else:
        node.become_follower(epoch, leader_id, found)


def _finds_address(node: Node, leader_id: int, endpoints: Mapping[str, Address]) -> bool:
    """Was the leader known by name only, until now?"""
    assert not isinstance(node.role, Leader), "another leader in our own epoch"
    return isinstance(node.role, Unattached) and _endpoints(node, leader_id, endpoints) is not None


def _endpoints(
    node: Node, leader_id: int, given: Mapping[str, Address]
) -> Mapping[str, Address] | None:
    """The leader's endpoints with one that we can use. While the configuration says who votes
    (kraft.version 0), it says where, too, and beats what is told.
    """
    listener = node.settings.listener
    configured = (
        node.settings.static_voters.get(leader_id) if node.history.kraft_version < 1 else None
    )
    if configured is not None:
        return {**given, listener: configured}
    if listener in given:
        return given
    known = node.address_of(leader_id)
    return {**given, listener: known} if known is not None else None
