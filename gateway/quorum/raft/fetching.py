"""Fetches of a replica, whoever is asked, and what every answer to one is checked for (KIP-595). Keeps nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.address import Address
from gateway.quorum import answers
from gateway.quorum.answers import Nonsense
from gateway.quorum.errors import error_name
from gateway.quorum.raft import asks, hearing
from gateway.quorum.raft.node import Node
from gateway.quorum.raft.peers import OnFailed
from gateway.quorum.requests import Position
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse, PartitionData

#: What an answer is given to: (log end it was asked for, when it was asked, message, version) -> as ``peers.OnAnswer``.
OnFetched = Callable[[Position, float, Any, int], bool | None]


def fetch(
    node: Node,
    address: Address,
    node_id: int,
    on_answer: OnFetched,
    *,
    max_wait_ms: int,
    told: int = -1,
    on_failed: OnFailed | None = None,
) -> None:
    """Ask ``address`` for what follows our log's end; ``told``: the high watermark as it told it last.

    The offset is an acknowledgement: everything below it is durable before it leaves (KAFKA-10533).
    """
    settings, log_end = node.settings, node.log.end
    request = partial(
        asks.fetch,
        cluster_id=settings.cluster_id,
        replica=(settings.node_id, settings.directory_id),
        epoch=node.epoch,
        log_end=log_end,
        high_watermark=told,
        max_wait_ms=max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
    )
    answered = partial(on_answer, log_end, node.now)
    key, versions = FetchRequest.API_KEY, asks.FETCH_VERSIONS
    node.ask(address, node_id, key, versions, request, answered, after=node.token, on_failed=on_failed)


def only_partition(node: Node, sender: str, message: Any) -> PartitionData | None:
    """The one partition of an answer, None if it is of no use."""
    assert isinstance(message, FetchResponse), message
    try:
        if message.error_code:
            raise Nonsense(f"a Fetch refused with {error_name(message.error_code)}")
        return answers.fetched_partition(message)
    except Nonsense as problem:
        node.nonsense(sender, str(problem))
        return None


def hear(node: Node, sender: str, partition: Any, message: Any) -> bool:
    """Take over who leads, of a Fetch's or a FetchSnapshot's answer. May the rest of it be used?"""
    leader = partition.current_leader
    return hearing.answer_says(node, sender, partition.error_code, leader.leader_epoch, leader.leader_id, message.node_endpoints)
