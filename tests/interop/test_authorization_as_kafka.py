"""Rows of the authorization matrix against Kafka's broker and controller: a principal without
ACLs gets the same refusals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.base.address import parse_address
from gateway.ports.answer_errors import errors_of
from gateway.security.client_properties import ClientSecurity, load_client_properties
from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import UnsupportedByPeer
from tests.gateway.handlers.authorization import LOG, OTHER_TOPIC, TOPIC, Row
from tests.gateway.handlers.test_authorization import LISTENERS, SecuredWorld, is_refused, rows
from tests.gateway.handlers.world import build
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.waiting import PATIENCE_S
from tools.kafka import Cluster, kafka
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    OUTSIDER_PASSWORD,
    properties_text,
    sasl_client_properties,
    sasl_server_properties,
)

pytestmark = pytest.mark.interop

#: A broker does not serve the metadata log as a topic, so its responses about it differ. (listener,
#: API, Kafka's errors, kwire's)
KNOWN_DIFFERENCES = [
    # Kafka's controller advertises this API and answers every request with UNKNOWN_SERVER_ERROR.
    ("CONTROLLER", "describe_user_scram_credentials", {-1: 2}, {31: 1}),
]
ROWS = [
    (listener, row) for listener, row in rows() if LOG not in {name for _, _, name in row.needs}
]


@dataclass
class Place:
    """Kafka's broker and controller in one process."""

    cluster: Cluster
    directory: Path

    def address(self, listener: str) -> str:
        node = self.cluster.nodes[0]
        return node.broker_address if listener == "PLAINTEXT" else node.controller_address

    def security(self, user: str, password: str) -> ClientSecurity:
        file = self.directory / f"{user}.properties"
        values = {
            "security.protocol": "SASL_PLAINTEXT",
            **sasl_client_properties("PLAIN", user, password),
        }
        file.write_text(properties_text(values))
        return load_client_properties(file)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_java()
    properties = {
        **sasl_server_properties("broker"),
        **sasl_server_properties("controller"),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
    }
    protocols: dict[str, Any] = {
        "controller_protocol": "SASL_PLAINTEXT",
        "broker_protocol": "SASL_PLAINTEXT",
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        **sasl_client_properties("PLAIN", ADMIN, ADMIN_PASSWORD),
    }
    with kafka(
        properties=properties,
        client_properties=client,
        **protocols,
    ) as cluster:
        made = Place(cluster, tmp_path_factory.mktemp("clients"))
        create_topics(made)
        yield made


def create_topics(place: Place) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    sasl = {"sasl.mechanism": "PLAIN", "sasl.username": ADMIN, "sasl.password": ADMIN_PASSWORD}
    admin = AdminClient(
        {
            "bootstrap.servers": place.address("PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            **sasl,
        }
    )
    for future in admin.create_topics(
        [NewTopic(name, 1, 1) for name in (TOPIC, OTHER_TOPIC)]
    ).values():
        future.result(PATIENCE_S)


async def ask(
    place: Place, listener: str, row: Row, user: str = OUTSIDER, password: str = OUTSIDER_PASSWORD
) -> Any:
    """Kafka's answer to ``user``, at the newest version that both know; None where it does not know
    the API there.
    """
    handler = LISTENERS[listener]()[row.api_key]
    security = place.security(user, password)
    upstream = await Upstream.connect(
        parse_address(place.address(listener)), security, client_id="c", timeout_s=15
    )
    try:
        version = upstream.common_version(row.api_key, handler.versions)
        return await upstream.call(
            build(handler.request_type(version), row.fields), version, timeout_s=15
        )
    except UnsupportedByPeer:
        return None
    finally:
        await upstream.aclose()


def test_principal_without_acls_gets_the_errors_of_kafka(place: Place) -> None:
    different, compared, unknown = [], 0, []
    for listener, row in ROWS:
        kafkas = trio.run(ask, place, listener, row)
        name = LISTENERS[listener]()[row.api_key].name
        if kafkas is None:
            unknown.append(f"{name} ({listener})")
            continue
        kwires = SecuredWorld().answer(row, listener, f"User:{OUTSIDER}")
        compared += 1
        if is_refused(row, kafkas) != is_refused(row, kwires) or (
            row.hidden is None and set(errors_of(kafkas)) != set(errors_of(kwires))
        ):
            different.append((listener, name, dict(errors_of(kafkas)), dict(errors_of(kwires))))
    FIGURES.append(
        f"authorization as Kafka's: {compared} requests refused alike; not known to Kafka there: "
        f"{unknown}"
    )
    assert different == KNOWN_DIFFERENCES
    describe = next(row for listener, row in ROWS if (listener, row.api_key) == ("CONTROLLER", 50))
    assert set(errors_of(trio.run(ask, place, "CONTROLLER", describe, ADMIN, ADMIN_PASSWORD))) == {
        -1
    }
    assert compared > 70
