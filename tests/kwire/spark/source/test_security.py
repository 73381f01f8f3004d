"""Kafka's names for TLS and SASL options in kafka-python's words, and what is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.source.options import settings_of
from kwire.spark.source.security import translated

SCRAM = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="eve"'
    ' password="a\\"b\\\\c;=";'
)
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required\n  username=eve\n "
    " password=secret ;"
)


def test_a_client_of_kafka_over_tls_with_a_password() -> None:
    settings = settings_of(
        {
            "kafka.bootstrap.servers": "a:1",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": SCRAM,
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "/etc/ca.pem",
            "kafka.ssl.endpoint.identification.algorithm": "",
        }
    )
    assert settings.client == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "eve",
        "sasl_plain_password": 'a"b\\c;=',
        "ssl_cafile": "/etc/ca.pem",
        "ssl_check_hostname": False,
    }


def test_a_key_of_ones_own() -> None:
    given = {
        "kafka.ssl.keystore.location": "/etc/me.pem",
        "kafka.ssl.key.password": "x",
        "kafka.ssl.keystore.type": "pem",
    }
    assert translated(given) == {
        "kafka.ssl_certfile": "/etc/me.pem",
        "kafka.ssl_keyfile": "/etc/me.pem",
        "kafka.ssl_password": "x",
    }
    assert translated({"kafka.ssl.endpoint.identification.algorithm": "https"}) == {
        "kafka.ssl_check_hostname": "true"
    }


def test_plain_login_module_gives_name_and_password() -> None:
    found = translated({"kafka.sasl.jaas.config": PLAIN, "kafka.sasl.mechanism": "PLAIN"})
    assert (found["kafka.sasl_plain_username"], found["kafka.sasl_plain_password"]) == (
        "eve",
        "secret",
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kafka.ssl.truststore.location": "/etc/ca.jks"}, "only PEM files"),
        ({"kafka.ssl.keystore.type": "PKCS12"}, "ssl.keystore.type is PEM, not 'PKCS12'"),
        ({"kafka.ssl.endpoint.identification.algorithm": "none"}, "is https, or empty"),
        ({"kafka.ssl.truststore.location": "/a", "kafka.ssl_cafile": "/b"}, "say the same thing"),
        ({"kafka.sasl.jaas.config": PLAIN}, "is for PLAIN, and kafka.sasl.mechanism is not given"),
        (
            {"kafka.sasl.jaas.config": SCRAM, "kafka.sasl.mechanism": "PLAIN"},
            "is for SCRAM, and kafka.sasl.mechanism is PLAIN",
        ),
        ({"kafka.sasl.jaas.config": PLAIN.replace(";", "")}, "is MODULE required"),
        (
            {"kafka.sasl.jaas.config": PLAIN.replace("PlainLogin", "Krb5Login")},
            "is MODULE required",
        ),
        ({"kafka.sasl.jaas.config": PLAIN.replace("secret", '"secret')}, "a quote is missing"),
        ({"kafka.sasl.jaas.config": PLAIN.replace("username", "user")}, "has no username"),
    ],
)
def test_unsupported_security_options_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        translated(options)
    assert "secret" not in str(caught.value)
