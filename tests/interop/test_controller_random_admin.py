"""Random requests about ACLs, quotas and SCRAM credentials get the same responses from Kafka
and kwire, and lead to the same state.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, Final

import pytest

from kwire.message import Message
from tests.gateway.controller.test_admin_properties import likely
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.controller_admin_requests import find_acls, find_quotas, find_scram
from tests.interop.test_controller_admin_answers import AUTHORIZER, NEWEST, flags
from tests.interop.test_controller_answers import agreed, ask, unlike
from tools.gateway_process import gateway
from tools.kafka import AT_ONCE, kafka
from tools.wire_client import WireClient

_REQUESTS: Final = (
    "CreateAclsRequest",
    "DeleteAclsRequest",
    "AlterClientQuotasRequest",
    "AlterUserScramCredentialsRequest",
)
_COUNT: Final = 1000
#: After so many it is asked what there is.
_BETWEEN_LOOKS: Final = 500
_SEED: Final = 6


@pytest.mark.timeout(900)  # half a minute, where nothing else runs
def test_random_requests_get_the_responses_of_kafka(tmp_path: Path) -> None:
    need_java()
    rng = random.Random(_SEED)
    with (
        kafka(version=NEWEST, properties=AUTHORIZER | AT_ONCE) as cluster,
        gateway(
            "--process-roles", "controller", "--data-dir", str(tmp_path), *flags(AUTHORIZER)
        ) as server,
        WireClient(cluster.bootstrap) as real,
        WireClient(server.bootstrap) as kwires,
    ):
        for number in range(1, _COUNT + 1):
            request = _request(rng)
            differences = list(unlike(ask(real, request), ask(kwires, request)))
            assert not differences, f"request {number}, {request}: {differences}"
            if number % _BETWEEN_LOOKS == 0:
                _look(real, kwires)
    FIGURES.append(
        f"ACLs, quotas, SCRAM: {_COUNT} random requests, the same answers, the same state"
    )


def _look(real: WireClient, kwires: WireClient) -> None:
    time.sleep(1)  # a broker is told of what its controller did when that is committed
    for question in (find_acls(), find_quotas(), find_scram()):
        assert agreed(question.NAME, question, real, kwires) == []


def _request(rng: random.Random) -> Message:
    """One that is answered for what it says: not what Kafka fails at, or ends the
    connection for.
    """
    request: Any = likely(rng.choice(_REQUESTS), rng)
    if request.NAME == "CreateAclsRequest":
        request.creations = [acl for acl in request.creations if _is_definite(acl)]
    elif request.NAME == "DeleteAclsRequest":
        request.filters = [one for one in request.filters if one.resource_type_filter]
    elif request.NAME == "AlterUserScramCredentialsRequest":
        request.upsertions = [one for one in request.upsertions if one.salted_password]
    return request


def _is_definite(acl: Any) -> bool:
    return 1 not in (
        acl.resource_type,
        acl.operation,
        acl.permission_type,
    ) and acl.resource_pattern_type in (3, 4)
