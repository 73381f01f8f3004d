"""A stock producer against the handlers alone: it gets the reason for a refused write."""

from __future__ import annotations

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from tests.gateway.handlers.mini_server import serving


@pytest.mark.parametrize(
    ("idempotent", "error"),
    [(True, "ClusterAuthorizationFailed"), (False, "TopicAuthorizationFailed")],
)
def test_producer_of_a_read_only_topic_fails_at_once(idempotent: bool, error: str) -> None:
    with serving() as server:
        producer = KafkaProducer(
            bootstrap_servers=f"127.0.0.1:{server.port}",
            enable_idempotence=idempotent,
            delivery_timeout_ms=15_000,
            request_timeout_ms=10_000,
        )
        try:
            with pytest.raises(KafkaError, match=error):
                producer.send("__cluster_metadata", b"x", partition=0).get(timeout=10)
        finally:
            producer.close(timeout=1)
