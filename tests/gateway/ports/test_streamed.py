"""Which complete responses are streamed, and that they keep their bytes and error codes."""

from __future__ import annotations

import pytest

from gateway.ports.answer_errors import errors_of
from gateway.ports.streamed import Streamed, stream_long
from kwire.message import Message
from kwire.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.server.scheduling.test_streamed_encoder import encoded

MANY = 9_000
#: Matching ACLs of each filter.
LONG = [[MANY], [1, MANY, 2], [1] * MANY, [0] * MANY, [300, *[1] * MANY, 300]]


def deletion(matches: list[int]) -> DeleteAclsResponse:
    """A response to as many filters as there are ``matches``."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=number % 3,
                matching_acls=[
                    DeleteAclsMatchingAcl(
                        error_code=4, resource_name=f"t{index}", principal="User:a", host="*"
                    )
                    for index in range(count)
                ],
            )
            for number, count in enumerate(matches)
        ]
    )


@pytest.mark.parametrize("matches", LONG, ids=lambda one: f"{len(one)}-{max(one)}")
def test_long_response_has_the_bytes_and_errors_of_the_whole(matches: list[int]) -> None:
    whole = deletion(matches)
    expected, errors = whole.encode(3), errors_of(whole)
    streamed = stream_long(deletion(matches))
    assert isinstance(streamed, Streamed)
    data, encoder, slices = encoded(streamed, 3, 100)
    assert data == expected and encoder.errors == errors
    assert slices > MANY / 200, "each slice encodes few elements"


@pytest.mark.parametrize(
    "message", [HeartbeatResponse(), deletion([]), deletion([1, 0, 3]), deletion([100] * 3)]
)
def test_short_response_stays_whole(message: Message) -> None:
    assert stream_long(message) is message
