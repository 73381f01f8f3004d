"""A Kafka broker under secured kwire controllers: SASL_SSL between them, Kafka's authorizer in
the broker and kwire's in the controllers.

ACLs that one of them writes hold at the other, because they are records of one log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from tests.interop.clients import need_clients
from tests.waiting import PATIENCE_S, until
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    OUTSIDER_PASSWORD,
    Authority,
    key_store_properties,
    sasl_server_properties,
    trust_store_properties,
)
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.real_brokers import SESSIONS, RealBrokers, real_brokers

pytestmark = pytest.mark.interop


@dataclass
class Place:
    """Three kwire controllers and a Kafka broker with a SASL listener for clients."""

    own: OwnCluster
    brokers: RealBrokers

    def admin(self, user: str = ADMIN, password: str = ADMIN_PASSWORD) -> Any:
        from confluent_kafka.admin import AdminClient

        sasl = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
        return AdminClient(
            {
                "bootstrap.servers": self.brokers.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                **sasl,
            }
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_clients()
    directory, authority = tmp_path_factory.mktemp("stores"), Authority()
    stores = key_store_properties(directory / "node.pem", authority.issue("node"))
    stores |= trust_store_properties(directory / "ca.pem", authority)
    common = {
        **stores,
        **sasl_server_properties("controller"),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "broker.session.timeout.ms": SESSIONS["broker.session.timeout.ms"],
    }
    own_properties = {
        **QUICK,
        **common,
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:SASL_SSL",
    }
    with own_quorum(3, properties=own_properties) as own:
        sasl = {**sasl_server_properties("broker"), "sasl.mechanism.inter.broker.protocol": "PLAIN"}
        protocols = {"listener.security.protocol.map": "BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_SSL"}
        properties = {**SESSIONS, **common, **sasl, **protocols}
        with real_brokers(own, 1, properties=properties) as brokers:
            yield Place(own, brokers)


def create(admin: Any, topic: str) -> str | None:
    """The name of the error, None if there is none."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    (future,) = admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=20).values()
    try:
        future.result(PATIENCE_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return None


def test_client_of_a_broker_is_authorized_by_the_kwire_controller(place: Place) -> None:
    assert create(place.admin(), "by-admin") is None
    assert (
        create(place.admin(OUTSIDER, OUTSIDER_PASSWORD), "by-outsider")
        == "TOPIC_AUTHORIZATION_FAILED"
    )


def test_acls_created_through_the_broker_hold_at_broker_and_controllers(place: Place) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    admin, outsider = place.admin(), place.admin(OUTSIDER, OUTSIDER_PASSWORD)
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            "free-",
            ResourcePatternType.PREFIXED,
            f"User:{OUTSIDER}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.CREATE, AclOperation.WRITE)
    ]
    for future in admin.create_acls(bindings).values():
        future.result(PATIENCE_S)
    until(lambda: create(outsider, "free-1") is None, "the controller's authorizer allows it")
    assert create(outsider, "other") == "TOPIC_AUTHORIZATION_FAILED"
    sasl = {
        "sasl.mechanism": "PLAIN",
        "sasl.username": OUTSIDER,
        "sasl.password": OUTSIDER_PASSWORD,
    }
    where = {"bootstrap.servers": place.brokers.bootstrap, "security.protocol": "SASL_PLAINTEXT"}
    outcomes: list[Any] = []
    producer = Producer(
        {**where, **sasl, "enable.idempotence": False, "message.timeout.ms": 20_000}
    )
    for topic in ("free-1", "by-admin"):  # the broker's
        producer.produce(
            topic, b"x", on_delivery=lambda error, _: outcomes.append(error and error.name())
        )
        producer.flush(30)
    assert outcomes == [None, "TOPIC_AUTHORIZATION_FAILED"]


def test_broker_stays_registered_when_the_leader_is_killed(place: Place) -> None:
    """The last test: it takes a controller away."""
    leader = next(node for node in place.own.nodes if '"controller active"' in node.output())
    place.own.kill_node(leader)
    until(
        lambda: create(place.admin(), "after-it") in (None, "TOPIC_ALREADY_EXISTS"),
        "a topic after it",
    )
    refusals = [line for line in place.brokers.errors() if "uthoriz" in line or "uthentic" in line]
    assert refusals == []
