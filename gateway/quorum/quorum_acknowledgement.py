"""Reads the responses to BeginQuorumEpoch and EndQuorumEpoch, which have the same fields
(KIP-595).
"""

from __future__ import annotations

from typing import Any

from gateway.base.error_text import error_with_code
from gateway.quorum import checks, transitions
from gateway.quorum.node import Node


def is_acknowledged(node: Node, sender: str, message: Any) -> bool:
    """Take the epoch and leader of the response; return whether it has no error and names no newer
    epoch.
    """
    partition = checks.only_partition(message.topics)
    if message.error_code or partition is None:
        node.protocol_violation(
            sender,
            f"an answer with {error_with_code(message.error_code)} and "
            f"{len(message.topics)} topics",
        )
        return False
    return transitions.handle_common_response(
        node,
        sender,
        partition.error_code,
        partition.leader_epoch,
        partition.leader_id,
        message.node_endpoints,
    )
