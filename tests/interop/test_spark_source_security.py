"""``format("kwire")`` connects to a Kafka with TLS and SASL by Kafka's own option names, and
reports the reason of a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra 'spark' has it)")

from kwire.spark.source.options import settings_of
from kwire.spark.source.server import ServerError, ServerLog
from tests.interop.clients import need_java
from tools.kafka import kafka
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    Authority,
    key_store_properties,
    sasl_client_properties,
    sasl_server_properties,
    scram_arguments,
    trust_store_properties,
)


@dataclass
class Place:
    """A broker's address, the id of its cluster, and what a client needs to trust it."""

    bootstrap: str
    cluster_id: str
    trust: Mapping[str, str]
    outsider: Mapping[str, str]

    def log(self, *parts: Mapping[str, str]) -> ServerLog:
        """Connect with Kafka's properties ``parts``, each with ``kafka.`` before it as Spark has
        them.
        """
        options = {f"kafka.{name}": value for part in parts for name, value in part.items()}
        options |= {"bootstrap.servers": self.bootstrap, "kafka.security.protocol": "SASL_SSL"}
        return ServerLog(settings_of({**options, "kafka.bootstrap_timeout_ms": "5000"}))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_java()
    directory, authority = tmp_path_factory.mktemp("stores"), Authority()
    trust = trust_store_properties(directory / "ca.pem", authority)
    server = (
        key_store_properties(directory / "node.pem", authority.issue("node"))
        | trust
        | sasl_server_properties("broker")
    )
    server |= {"sasl.mechanism.inter.broker.protocol": "PLAIN"}
    with kafka(
        broker_protocol="SASL_SSL",
        properties=server,
        format_arguments=scram_arguments(),
    ) as cluster:
        outsider = trust_store_properties(Path(directory) / "other.pem", Authority())
        yield Place(cluster.bootstrap, cluster.cluster_id, trust, outsider)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_every_mechanism_authenticates_over_tls(place: Place, mechanism: str) -> None:
    log = place.log(place.trust, sasl_client_properties(mechanism, ADMIN, ADMIN_PASSWORD))
    try:
        assert log.cluster_id() == place.cluster_id
    finally:
        log.close()


def test_wrong_password_is_reported_with_the_reason(
    place: Place,
) -> None:
    # Kafka closes the connection behind its refusal, so that a client may see the one or the other
    # first.
    reason = (
        f"cannot read __cluster_metadata from {place.bootstrap}: .*(invalid credentials|socket "
        f"disconnected)"
    )
    with pytest.raises(ServerError, match=reason):
        place.log(place.trust, sasl_client_properties("SCRAM-SHA-512", ADMIN, "wrong"))


def test_certificate_of_another_authority_is_refused(place: Place) -> None:
    with pytest.raises(ServerError, match="certificate verify failed"):
        place.log(place.outsider, sasl_client_properties("PLAIN", ADMIN, ADMIN_PASSWORD))
