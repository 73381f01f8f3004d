"""A Kafka controller replays the records that kwire wrote about ACLs, quotas, SCRAM users and
tokens without an error.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from gateway.security.principal import Principal, encode_principal
from kwire import response_type
from kwire.header import decode_response_header, encode_request_header
from kwire.message import Message
from kwire.messages.envelope_request import EnvelopeRequest
from tests.gateway.controller.test_admin_properties import likely
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.controller_admin_requests import ACLS, QUOTAS, SCRAM
from tests.interop.controller_token_requests import create, expire, renew
from tests.interop.own_kafka import complaints, observed_by_kafka
from tests.interop.quorum import clipped, files_of, first_unequal, wait_for_segments
from tests.interop.test_controller_admin_answers import AUTHORIZER
from tests.interop.test_controller_token_answers import SECRET
from tools.consistency_checker.watch import leader_end
from tools.own_quorum import QUICK, own_quorum
from tools.wire_client import WireClient

_RANDOM: Final = 500
_REQUESTS: Final = (
    "CreateAclsRequest",
    "DeleteAclsRequest",
    "AlterClientQuotasRequest",
    "AlterUserScramCredentialsRequest",
)


def test_kafka_controller_replays_the_log(tmp_path: Path) -> None:
    need_java()
    settings = {**AUTHORIZER, **SECRET}
    with own_quorum(ids=[11], properties={**QUICK, **settings}, formatted=True) as own:
        leader = own.wait_for_leader()
        with (
            observed_by_kafka(own, tmp_path, settings) as observer,
            WireClient(own.controllers) as client,
        ):
            write_all(client)
            end = leader_end(leader)
            fetched = wait_for_segments(observer, end)
            assert not first_unequal(fetched, clipped(files_of(leader), end))
            assert complaints(observer) == []
    FIGURES.append(
        f"admin records: {end} offsets of ACLs, quotas, users and tokens replayed by Kafka, no "
        "complaint"
    )


def write_all(client: WireClient) -> None:
    """Records of all these areas, left and removed."""
    for _, request in ACLS + QUOTAS + SCRAM:
        if not request.NAME.startswith("Describe"):
            client.call(request, type(request).VERSIONS[-1])
    rng = random.Random(1)
    for _ in range(_RANDOM):
        request = likely(rng.choice(_REQUESTS), rng)
        client.call(request, type(request).VERSIONS[-1])
    told: dict[str, Any] = {str(number): _forwarded(client, create()({})) for number in range(20)}
    for number in range(20):
        answer = _forwarded(client, (renew, expire)[number % 2](str(number), -1)(told))
        assert answer.error_code == 0


def _forwarded(client: WireClient, request: Message) -> Any:
    """In an Envelope, as a broker forwards it: requests about tokens need a principal."""
    cls, version = type(request), type(request).VERSIONS[-1]
    assert cls.API_KEY is not None
    data = encode_request_header(cls.API_KEY, version, 1, "client") + request.encode(version)
    principal = encode_principal(Principal("User:ann"))
    envelope = EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=b"\x7f\x00\x00\x01"
    )
    answer: Any = client.call(envelope, 0)
    assert answer.error_code == 0
    header, body = decode_response_header(cls.API_KEY, version, answer.response_data)
    assert header.correlation_id == 1
    return response_type(cls.API_KEY).decode(bytes(answer.response_data)[body:], version)
