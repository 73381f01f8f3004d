"""The tagged field in which a relay says how far it is from the leader."""

from __future__ import annotations

import pytest

from gateway.quorum import leader_distance
from gateway.quorum.leader_distance import LeaderDistance
from gateway.quorum.response_checks import InvalidResponse
from kwire.messages.fetch_response import FetchResponse


@pytest.mark.parametrize("data", [b"", b"\0\1\0\0\0", b"\0\0\0\0\0\1", b"\0\1\xff\xff\xff\xff"])
def test_distance_of_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidResponse):
        leader_distance.read(FetchResponse(unknown_tags=[(leader_distance.TAG, data)]))


def test_distance_survives_its_bytes() -> None:
    answer = FetchResponse()
    leader_distance.write(answer, LeaderDistance(2, 0.0), 90.0, 91.5)
    assert leader_distance.read(FetchResponse.decode(answer.encode(18), 18)) == (3, 1.5)
    leader_distance.write(answer, LeaderDistance(0, 0.0), None, 91.5)
    assert leader_distance.read(answer) == (1, float("inf"))
    assert leader_distance.read(FetchResponse()) == leader_distance.LEADER
