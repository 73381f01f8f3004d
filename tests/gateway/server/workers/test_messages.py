"""Messages between the node and a worker survive their bytes, whatever clients put into them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.config.config import Config, Listener
from gateway.handlers.context import Peer
from gateway.ports.services import State
from gateway.server.workers.messages import NodeState, Request, Response, Start, decode, encode
from gateway.sources.followed_log import LogState
from kwire.frame import SIZE_BYTES


@given(st.text(), st.text(), st.binary())
def test_request_of_any_client_arrives_unchanged(
    principal: str, client_host: str, body: bytes
) -> None:
    request = Request(7, Peer("PLAINTEXT", principal, client_host, 4711, 3, True), body)
    assert decode(encode(request)[SIZE_BYTES:]) == request


def test_start_has_the_whole_configuration() -> None:
    config = Config(
        source="sample",
        workers=3,
        listeners=(Listener("SASL", "127.0.0.1", 0),),
        listener_security_protocol_map={"SASL": "SASL_PLAINTEXT"},
        max_connections_per_ip_overrides={"10.0.0.1": 7},
        security={"sasl.enabled.mechanisms": "PLAIN"},
    )
    state = NodeState(LogState(5, 1, State.STALE), "cluster", audit=LogState(1, 0, State.READY))
    start = Start(2, config, (("SASL", "127.0.0.1", 9092, 7),), state)
    assert decode(encode(start)[SIZE_BYTES:]) == start


def test_response_keeps_its_errors() -> None:
    response = Response(1, b"body", Counter({36: 2}))
    assert decode(encode(response)[SIZE_BYTES:]) == response
