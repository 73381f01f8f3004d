"""Kafka's controller and kwire's give the same errors and results for the same requests about
ACLs, quotas and SCRAM credentials.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kwire.message import Message
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.controller_admin_requests import ACLS, QUOTAS, SCRAM
from tests.interop.test_controller_answers import agreed, ask, unlike
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.wire_client import WireClient

#: kwire's values where they differ from Kafka's on purpose, and the reason.
_ANY: Final = (
    "the ACL is refused and the reason told, where Kafka fails at the whole request and says "
    "nothing"
)
DELIBERATE: Final = {
    **{
        f"any {what}: .results[0].{part}": _ANY
        for what in ("type", "pattern", "operation", "permission")
        for part in ("errorCode", "says why")
    },
    "matching pattern: .results[0].errorCode": _ANY,
    "matching pattern: .results[0].says why": _ANY,
    "no password: .results[0].errorCode": "the credential is refused, where Kafka fails at it",
    "no password: .results[0].says why": "and the reason told",
}
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
#: The release whose levels our controllers have.
NEWEST: Final = "4.4.0"
#: How long after a change a broker of Kafka has heard of it.
_HEARD_WITHIN_S: Final = 0.5


def flags(properties: Mapping[str, str]) -> list[str]:
    """The same on our command line."""
    return [
        part for key, value in properties.items() for part in ("--" + key.replace(".", "-"), value)
    ]


def test_admin_requests_get_the_responses_of_kafka(tmp_path: Path) -> None:
    need_java()
    with (
        kafka(version=NEWEST, properties=AUTHORIZER) as cluster,
        gateway(
            "--process-roles", "controller", "--data-dir", str(tmp_path), *flags(AUTHORIZER)
        ) as server,
        WireClient(cluster.bootstrap) as real,
        WireClient(server.bootstrap) as kwires,
    ):
        told = [
            one
            for about, request in ACLS + QUOTAS + SCRAM
            for one in _compared(about, request, real, kwires)
        ]
    differences = {one.partition(": Kafka ")[0]: one for one in told}
    count = len(ACLS + QUOTAS + SCRAM)
    FIGURES.append(
        f"ACLs, quotas, SCRAM: {count} requests, the same answers but for {len(DELIBERATE)} on "
        "purpose"
    )
    assert differences.keys() == DELIBERATE.keys(), "\n".join(
        [
            *(told for place, told in differences.items() if place not in DELIBERATE),
            *(DELIBERATE.keys() - differences.keys()),
        ]
    )


def _compared(about: str, request: Message, real: WireClient, kwires: WireClient) -> list[str]:
    if request.NAME.startswith("Describe"):
        return agreed(about, request, real, kwires, DELIBERATE)
    differences = [f"{about}: {one}" for one in unlike(ask(real, request), ask(kwires, request))]
    time.sleep(_HEARD_WITHIN_S)
    return differences
