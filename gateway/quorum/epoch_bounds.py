"""Decides which epochs a node believes when a peer names them.

An epoch is an int32, and a node never goes back to a lower one. So a single message that names the
last epoch would end all elections for ever. The epochs of a log are proven: a leader wrote each of
its records, and an elected leader writes one at once. Nodes therefore believe an epoch only up to a
distance from that of their last record. Kafka believes any (``maybeTransition``). It changes no
state.
"""

from __future__ import annotations

from typing import Final

from gateway.base.leader_epochs import OUT_OF_REACH
from gateway.quorum.node import Node

#: Epochs above that of the last record that a request may name. Any process can send a request;
#: so many elections without a leader are unusual, and the node learns the epoch from responses.
REQUESTED_MAX: Final = 10_000


def answer_believed(node: Node, epoch: int) -> bool:
    """Return whether a response may raise the epoch of this node to ``epoch``.

    It came from an address at which a node of the quorum is known.
    """
    # An observer does not store an epoch before a leader has answered in it. A voter without
    # records joins a quorum whose epochs it has no measure for.
    return (
        epoch <= max(node.log.last_epoch + OUT_OF_REACH, node.epoch + 1)
        or not node.is_voter
        or not node.log.end_offset
    )


def request_believed(node: Node, sender_id: int, epoch: int) -> bool:
    """Return whether a request of ``sender_id`` may raise the epoch of this node to ``epoch``."""
    if epoch <= node.epoch:
        return True
    # One more than this node's own whatever the log says: the next election must not depend on it.
    if epoch > max(node.log.last_epoch + REQUESTED_MAX, node.epoch + 1):
        return False
    # The sender may be a voter by a record that this node does not have yet, or that it has lost
    # again (KIP-853). Such a sender needs this node's vote, or can only be brought back by an
    # election after its epoch. In a static quorum the voters are those of the configuration. Seeded
    # bug in tests/sim: ``unknown_senders_are_never_believed``.
    static = bool(node.settings.static_voters) and node.history.kraft_version < 1
    return sender_id in node.voters.nodes or not static
