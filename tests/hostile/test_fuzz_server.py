"""8,000 fuzzed frames (``tools.fuzz_server``) cause no internal error and no election in live
servers.

A failure prints frames in hex; ``python -m tools.fuzz_server --setting SETTING --replay HEX`` sends
one of them to a new server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.protocol import ApiKey
from tools.fuzz_server.run import TABLES, fuzz, replay
from tools.fuzz_server.servers import SETUPS, Server, running

SEED = 1
FRAMES = 2_000  #: of each of the four settings
CONNECTIONS = 64


@pytest.fixture(scope="module", params=SETUPS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param) as server:
        yield server


@pytest.mark.parametrize("listener", TABLES)
def test_fuzzed_frames_cause_no_fault(server: Server, listener: str) -> None:
    result = fuzz(server, listener, seed=SEED, first=0, count=FRAMES, connections=CONNECTIONS)
    assert not result.faults, result.summary()
    assert sum(result.seen.frames.values()) == FRAMES
    # The fuzzer does not wait for answers that come late, as those of long polls.
    assert len(result.seen.answered) >= 0.5 * result.served, result.summary()


def test_replayed_frame_is_sent_to_a_running_server(server: Server) -> None:
    header = encode_request_header(ApiKey.API_VERSIONS, 3, 0, "replayed")
    body = ApiVersionsRequest(client_software_name="a", client_software_version="1").encode(3)
    result = replay(server, "broker", [frame(header, body)])
    assert not result.faults, result.summary()
    assert result.seen.errors == {"NONE": 1}
