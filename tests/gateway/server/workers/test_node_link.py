"""A worker's requests to the node: forwarding, cancelling, and shared questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gateway.handlers.context import Peer
from gateway.server.workers.messages import Cancel, Request, Response, Synced, SyncRequest
from gateway.server.workers.node_link import NodeGone, NodeLink
from kwire.header import encode_request_header

PEER = Peer("PLAINTEXT", "User:bob", "10.0.0.1", 1, 1)
HEARTBEAT = encode_request_header(12, 3, 1, "client")
CREATE_TOPICS = encode_request_header(19, 7, 1, "client")


class Node:
    """Keeps what the worker sends and the callbacks that wait."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.catching_up: list[Callable[[], None]] = []
        self.applying: list[Callable[[], None]] = []
        self.link = NodeLink(self.sent.append, self.catching_up.append, self.applying.append)


def delivered(node: Node, frame: bytes) -> list[Any]:
    found: list[Any] = []
    node.link.forward(frame, PEER).attach(found.append)
    return found


def test_request_is_forwarded_with_its_client() -> None:
    node = Node()
    found = delivered(node, HEARTBEAT)
    assert node.sent == [Request(1, PEER, HEARTBEAT)]
    node.link.responded(Response(1, b"body", Counter({3: 1})))
    assert [bytes(part.chunks[0]) for part in found[0].encode_parts(3)] == [b"body"]
    assert found[0].errors == {3: 1}


def test_response_to_a_change_waits_for_the_image() -> None:
    node = Node()
    found = delivered(node, CREATE_TOPICS)
    node.link.responded(Response(1, b"body", Counter()))
    assert not found
    node.applying.pop()()
    assert len(found) == 1


def test_client_that_disconnects_cancels_its_request() -> None:
    node = Node()
    pending = node.link.forward(HEARTBEAT, PEER)
    pending.cancel()
    assert node.sent[1:] == [Cancel(1)]
    node.link.responded(Response(1, b"late", Counter()))
    assert not pending.done


def test_request_that_the_node_failed_closes_the_connection() -> None:
    node = Node()
    found = delivered(node, HEARTBEAT)
    node.link.responded(Response(1, None, Counter()))
    with pytest.raises(NodeGone):
        found[0].encode_parts(3)


def test_questions_during_a_question_share_the_next_one() -> None:
    node, called = Node(), list[int]()
    for number in range(3):
        node.link.catch_up(lambda number=number: called.append(number))  # type: ignore[misc]
    assert node.sent == [SyncRequest(1)]
    node.link.told(Synced(1))
    assert node.sent == [SyncRequest(1), SyncRequest(2)]
    node.catching_up.pop(0)()
    assert called == [0], "the others asked after the first question was sent"
    node.link.told(Synced(2))
    node.catching_up.pop(0)()
    assert called == [0, 1, 2]
    assert len(node.sent) == 2
