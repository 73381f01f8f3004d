"""The same requests of two users about delegation tokens get the same errors and times from
Kafka and kwire.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from tests.gateway.controller.cluster import made
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.controller_token_requests import MINUTE_MS, STEPS, Step
from tests.interop.test_controller_answers import unlike
from tools.gateway_process import Gateway, gateway
from tools.kafka import Cluster, kafka
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    OUTSIDER_PASSWORD,
    properties_text,
    sasl_server_properties,
)
from tools.wire_client import WireClient

_PASSWORDS: Final = {ADMIN: ADMIN_PASSWORD, OUTSIDER: OUTSIDER_PASSWORD}
SECRET: Final = {"delegation.token.secret.key": "a secret key"}
_SERVER: Final = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    **sasl_server_properties("broker"),
}
#: One step of each kind, and one that is forbidden whatever the key.
_WITHOUT_A_KEY: Final = (
    "none yet",
    "make",
    "for another",
    "for another, forbidden",
    "renew",
    "expire now",
)
#: How long after a change a broker of Kafka has heard of it.
_HEARD_WITHIN_S: Final = 0.5
#: A moment, not a duration.
_SINCE_EPOCH: Final = 10**12


def test_token_requests_get_the_responses_of_kafka(tmp_path: Path) -> None:
    need_java()
    with kafka_of_users(SECRET) as cluster, ours_of_users(tmp_path, SECRET) as server:
        expected, answers = _answers(cluster.bootstrap, STEPS), _answers(server.bootstrap, STEPS)
    FIGURES.append(f"delegation tokens: {len(STEPS)} steps, the same answers")
    differences = [
        f"{about}: {one}"
        for about, answer in expected.items()
        for one in unlike(answer, answers[about], "")
    ]
    assert not differences, "\n".join(differences)


def test_token_requests_without_a_secret_key_get_the_responses_of_kafka(tmp_path: Path) -> None:
    need_java()
    with kafka_of_users({}) as cluster, ours_of_users(tmp_path, {}) as server:
        steps = [step for step in STEPS if step.about in _WITHOUT_A_KEY]
        expected, answers = _answers(cluster.bootstrap, steps), _answers(server.bootstrap, steps)
    assert answers == expected


def _answers(address: str, steps: Sequence[Step]) -> dict[str, Any]:
    """The response to each step, in a form that does not depend on server or time."""
    told: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        clients = {user: stack.enter_context(_as_user(address, user)) for user in _PASSWORDS}
        for step in steps:
            request = step.request(told)
            version = type(request).VERSIONS[-1]
            told[step.about] = clients[step.user].call(request, version)
            if not request.NAME.startswith("Describe"):
                time.sleep(_HEARD_WITHIN_S)
    return {
        about: _comparable(answer.to_json(type(answer).VERSIONS[-1]))
        for about, answer in told.items()
    }


@contextlib.contextmanager
def _as_user(address: str, user: str) -> Iterator[WireClient]:
    with WireClient(address) as client:
        client.call(made("SaslHandshakeRequest", mechanism="PLAIN"), 1)
        token = f"\0{user}\0{_PASSWORDS[user]}".encode()
        answer: Any = client.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert answer.error_code == 0, answer.error_message
        yield client


def _comparable(value: Any, name: str = "") -> Any:
    """Ids and passwords by their length, moments by how far they are away, in minutes; lists in an
    order of their own.
    """
    if isinstance(value, dict):
        return {
            key: _comparable(inner, key) for key, inner in value.items() if key != "throttleTimeMs"
        }
    if isinstance(value, list):
        return sorted((_comparable(one) for one in value), key=repr)
    if name in ("tokenId", "hmac"):
        return len(value)
    if isinstance(value, int) and value > _SINCE_EPOCH:
        return f"in {round((value - time.time() * 1000) / MINUTE_MS)} min"
    return value


def kafka_of_users(secret: dict[str, str]) -> contextlib.AbstractContextManager[Cluster]:
    """A broker of Kafka that ADMIN, a super user, and OUTSIDER can log in at by PLAIN."""
    return kafka(
        broker_protocol="SASL_PLAINTEXT",
        properties=_SERVER | secret,
    )


def ours_of_users(
    directory: Path, secret: dict[str, str]
) -> contextlib.AbstractContextManager[Gateway]:
    """The same against kwire."""
    file = directory / "server.properties"
    known = {
        key: value
        for key, value in _SERVER.items()
        if key != "sasl.mechanism.inter.broker.protocol"
    }
    file.write_text(
        properties_text(
            {
                **known,
                **secret,
                "process.roles": "controller",
                "data.dir": str(directory / "data"),
                "listener.security.protocol.map": "BROKER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            }
        )
    )
    return gateway("--config", str(file), "--listeners", "BROKER://127.0.0.1:0")
