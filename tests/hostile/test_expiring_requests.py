"""Many long requests whose timeouts end at the same moment, before the controller has decided."""

from __future__ import annotations

import contextlib
import socket
import struct

from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.create_topics_response import CreateTopicsResponse
from kwire.protocol import ErrorCode
from tests.gateway.controller.cluster import create
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum
from tests.waiting import PATIENCE_S

TOPICS, CONNECTIONS = 9_000, 24
#: Time from the arrival of each request until it expires, ms. A server that counts its work decides
#: on half of the requests in 5 s.
EXPIRE_MS = 1_500


def test_requests_that_expire_together_disturb_no_other_client() -> None:
    topics = [{"name": f"t{number}"} for number in range(TOPICS)]
    asked = create(*topics, validate_only=True, timeout_ms=EXPIRE_MS).encode(7)
    hello = frame(encode_request_header(18, 0, 1, "attacker"))  # larger frames are taken behind it
    sent = hello + frame(encode_request_header(19, 7, 2, "attacker"), asked)
    with attacked_quorum() as cluster:
        port = cluster.wait_for_leader().broker_port

        def attack() -> None:
            with contextlib.ExitStack() as stack:
                clients = [
                    stack.enter_context(
                        socket.create_connection(("127.0.0.1", port), 4 * PATIENCE_S)
                    )
                    for _ in range(CONNECTIONS)
                ]
                for one in clients:
                    one.sendall(sent)
                expired = sum(timed_out(one) for one in clients)
            assert expired >= CONNECTIONS // 2, "too few requests expired"

        assert_others_undisturbed(cluster, attack, memory_mib=256)


def timed_out(client: socket.socket) -> bool:
    """Whether the second response is an error of each topic, as the time is over."""
    with client.makefile("rb") as stream:
        for _ in range(2):
            (size,) = struct.unpack(">i", stream.read(4))
            data = stream.read(size)
    answer = CreateTopicsResponse.decode(data[5:], 7)  # behind correlation id and tags
    return {topic.error_code for topic in answer.topics} == {ErrorCode.REQUEST_TIMED_OUT}
