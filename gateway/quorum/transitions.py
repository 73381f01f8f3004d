"""Takes the epoch and leader that a message names, and changes the role accordingly (KIP-595).

Epochs only rise, an epoch has one leader, and no message makes this node a leader. It reads no
other field of messages. Follows ``maybeTransition`` and ``maybeHandleCommonResponse``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.base.address import Address
from gateway.base.error_text import error_with_code
from gateway.quorum.checks import is_consistent_leader
from gateway.quorum.effects import AbandonSnapshot
from gateway.quorum.epoch_bounds import answer_believed
from gateway.quorum.node import EPOCH_MAX, NO_NODE, Node
from gateway.quorum.roles import Follower, Leader, Unattached
from kwire.protocol import ErrorCode

_REFUSALS = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
#: Errors that a correct node sends while it lags behind, or while it starts.
_EXPECTED = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.BROKER_NOT_AVAILABLE)


def maybe_transition(
    node: Node, epoch: int, leader_id: int, endpoints: Mapping[str, Address]
) -> bool:
    """Move to an epoch and its leader (-1: unknown) that a peer named; return False, and change
    nothing, if they are impossible.

    ``endpoints``: the leader's, by listener name, as far as the message has them.
    """
    if (
        not 0 <= epoch <= EPOCH_MAX
        or leader_id < NO_NODE
        or not is_consistent_leader(node, epoch, leader_id)
    ):
        return False
    # Nothing is to be taken from a late message of an older epoch, nor from one that names this
    # node: ``is_consistent_leader`` let that pass because it leads or has led this epoch. Seeded
    # bug in tests/sim: ``announcements_of_older_epochs_are_believed``.
    if epoch < node.epoch or node.is_self(leader_id):
        return True
    # Within an epoch the leader goes from unknown to known once. A leader that is followed already
    # is followed on, so that repeated BeginQuorumEpoch requests do not reset the role.
    if epoch > node.epoch or (
        leader_id != NO_NODE
        and (node.leader_id == NO_NODE or _finds_address(node, leader_id, endpoints))
    ):
        _follow(node, epoch, leader_id, endpoints)
    assert epoch <= node.epoch, "the epoch of a message is taken"
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
    """Take the epoch and leader of a response; return whether the rest of it can be used
    (``maybeHandleCommonResponse``).

    ``asked``: the address that sent the response, given if only a leader responds without an error.
    """
    given = _given_endpoints(node, leader_id, endpoints)
    # Kafka takes such a response for a success (``maybeHandleCommonResponse``). An observer pauses:
    # a node that lags keeps giving the same answer.
    if epoch < node.epoch:
        if error and node.settings.observer is not None:
            node.report_once("request refused", sender=sender, error=error_with_code(error))
        node.back_off()
        if leader_id != NO_NODE:
            _doubt_named_epoch(node, sender, epoch)
        return False
    if epoch > node.epoch and not answer_believed(node, epoch):
        node.doubt(sender, epoch)
        return False
    # The response names a leader with this observer's replica id, which is therefore a voter's.
    if node.settings.observer is not None and node.is_self(leader_id):
        node.learn_voters(frozenset({leader_id}))  # it stops: the replica id belongs to a voter
        return False
    if asked is not None and error == ErrorCode.NONE and leader_id != NO_NODE:
        _use_address(node, leader_id, given, asked)
    # Compared before ``maybe_transition`` moves the node.
    moved = epoch > node.epoch
    before = node.epoch, node.leader_id
    # Kafka throws IllegalStateException here, which ends the process. Seeded bugs in tests/sim:
    # ``a_second_leader_named_raises``, ``a_second_leader_of_an_epoch_is_believed``.
    if not maybe_transition(node, epoch, leader_id, given):
        _handle_second_leader(node, sender, epoch, leader_id)
        return False
    if node.settings.observer is not None and before != (node.epoch, node.leader_id):
        if node.leader_id == NO_NODE:
            node.retry.back_off(node.now)
        else:
            node.retry.leader_named(node.now)
    elif error:
        node.back_off()
    if error in _REFUSALS and not moved and node.settings.observer is not None:
        node.report_once("request refused", sender=sender, error=error_with_code(error))
    # INVALID_REQUEST among them, which Kafka answers with an exception: one peer with a fault must
    # not stop the nodes that it talks to.
    if error not in (ErrorCode.NONE, *_REFUSALS, *_EXPECTED):
        node.protocol_violation(sender, error_with_code(error))
    # A response of a newer epoch answers a request of an older one, so only its epoch counts.
    return error == ErrorCode.NONE and not moved


def _doubt_named_epoch(node: Node, sender: str, epoch: int) -> None:
    """Go back to the ``epoch`` of a quorum whose leader is known, where this observer follows an
    epoch in which no leader has answered it for a fetch timeout.
    """
    if (
        not node.is_answered
        and epoch >= node.proven_epoch
        and node.now >= node.epoch_since + node.settings.fetch_timeout_s
    ):
        node.doubt(f"a peer other than {sender}", node.epoch)
        node.step_back(epoch)


def _given_endpoints(node: Node, leader_id: int, endpoints: Iterable[Any]) -> dict[str, Address]:
    """Remember the addresses in a response; return the leader's by listener name."""
    given: dict[str, Address] = {}
    for endpoint in endpoints:
        node.learn_address(endpoint.node_id, endpoint.host, endpoint.port)
        if endpoint.node_id == leader_id and endpoint.node_id in node.addresses:
            given[node.settings.listener] = node.addresses[leader_id]
    return given


def _use_address(node: Node, leader_id: int, given: dict[str, Address], asked: Address) -> None:
    """Use the address at which the leader answered, in place of the one that it advertises."""
    # Behind a forwarded port the advertised address may not be reachable from here, and Kafka below
    # Fetch version 17 names no endpoints at all.
    given[node.settings.listener] = asked
    if (
        node.settings.observer is not None
        and isinstance(node.role, Follower)
        and node.role.leader_id == leader_id
    ):
        # Two relays answer for one leader, and their snapshots with one id are two files.
        if node.role.download is not None and asked != node.address_of(leader_id):
            node.emit(AbandonSnapshot(node.role.download.id))
            node.role.download = None
        node.role.endpoints = node.leader_endpoints = given


def _handle_second_leader(node: Node, sender: str, epoch: int, leader_id: int) -> None:
    """Report a response that names a second leader of the epoch."""
    node.protocol_violation(
        sender,
        f"it says that {leader_id} leads epoch {epoch}: here {node.leader_id} leads {node.epoch}",
    )
    # An observer cannot tell which of two leaders is the real one. It follows the one that next
    # answers as a leader; as it does not vote, that is safe.
    if node.settings.observer is not None and epoch == node.epoch:
        node.back_off()
        node.become_unattached(epoch)


def _follow(node: Node, epoch: int, leader_id: int, endpoints: Mapping[str, Address]) -> None:
    assert not node.is_self(leader_id), "a node does not follow itself"
    if leader_id == NO_NODE:
        node.become_unattached(epoch)
        return
    found = _endpoints(node, leader_id, endpoints)
    if found is None:
        # Known by its id alone: discovery asks the other nodes for the address, and no vote is
        # given meanwhile.
        node.become_unattached(epoch, leader_id)
    else:
        node.become_follower(epoch, leader_id, found)


def _finds_address(node: Node, leader_id: int, endpoints: Mapping[str, Address]) -> bool:
    """Return whether the message has the address of a leader that was known by id only."""
    assert not isinstance(node.role, Leader), "another leader in the epoch that this node leads"
    return isinstance(node.role, Unattached) and _endpoints(node, leader_id, endpoints) is not None


def _endpoints(
    node: Node, leader_id: int, given: Mapping[str, Address]
) -> Mapping[str, Address] | None:
    """Return the leader's endpoints with an address at this node's listener; None without one."""
    listener = node.settings.listener
    # In a static quorum (kraft.version 0) the configuration has the address, and it beats the one
    # in the message, as in Kafka.
    configured = (
        node.settings.static_voters.get(leader_id) if node.history.kraft_version < 1 else None
    )
    if configured is not None:
        return {**given, listener: configured}
    if listener in given:
        return given
    known = node.address_of(leader_id)
    return {**given, listener: known} if known is not None else None
