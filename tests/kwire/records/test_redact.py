"""No secret of a record is left in its decoded form, and nothing else is touched."""

from __future__ import annotations

import pytest

from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.protocol import ConfigResourceType
from kwire.records.redact import REDACTED, is_secret_config, redact
from kwire.records.secret_table import BROKER_PASSWORDS, PUBLIC_CONFIGS

SCRAM = UserScramCredentialRecord(
    name="eve", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)


def test_scram_keys() -> None:
    assert redact("USER_SCRAM_CREDENTIAL_RECORD", SCRAM.to_json(0)) == {
        "name": "eve",
        "mechanism": 1,
        "salt": REDACTED,
        "storedKey": REDACTED,
        "serverKey": REDACTED,
        "iterations": 4096,
    }


def test_bytes_stay_bytes() -> None:
    assert redact("USER_SCRAM_CREDENTIAL_RECORD", {"salt": b"s", "name": "eve"}) == {
        "salt": b"(redacted)",
        "name": "eve",
    }


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "listener.name.external.ssl.key.password",
        "listener.name.external.scram-sha-256.sasl.jaas.config",
        "ssl.keystore.key",
        "ssl.truststore.certificates",
        "delegation.token.master.key",
        "Some.Plugin.SECRET",
        "my.plugin.setting",
        "password.encoder.secret",
        "listener.name.external.my.plugin.setting",
        "",
    ],
)
def test_secret_configs(name: str) -> None:
    data = {"resourceType": 4, "resourceName": "1", "name": name, "value": "hunter2"}
    assert redact("CONFIG_RECORD", data) == {**data, "value": REDACTED}
    assert data["value"] == "hunter2"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("CONFIG_RECORD", {"resourceType": 2, "name": "retention.ms", "value": "1"}),
        ("CONFIG_RECORD", {"resourceType": 4, "name": "ssl.key.password", "value": None}),
        ("TOPIC_RECORD", {"name": "password", "value": "x"}),
    ],
)
def test_the_rest_is_left_as_it_is(kind: str, data: dict[str, object]) -> None:
    assert redact(kind, data) is data


def test_config_is_known_by_the_type_of_its_resource() -> None:
    assert not is_secret_config(ConfigResourceType.TOPIC, "retention.ms") and is_secret_config(
        ConfigResourceType.BROKER, "retention.ms"
    )
    assert not is_secret_config(ConfigResourceType.BROKER, "log.retention.ms") and is_secret_config(
        ConfigResourceType.TOPIC, "log.retention.ms"
    )
    assert all(is_secret_config(unknown, "retention.ms") for unknown in (-1, 0, 3, 8, 127))


def test_config_of_a_listener_is_as_secret_as_the_config_without_the_prefix() -> None:
    prefix = "listener.name.external."
    for name in (
        "ssl.keystore.location",
        "ssl.client.auth",
        "scram-sha-256.connections.max.reauth.ms",
        "max.connections",
    ):
        assert not is_secret_config(ConfigResourceType.BROKER, prefix + name)
    for name in BROKER_PASSWORDS:
        assert is_secret_config(ConfigResourceType.BROKER, name) and is_secret_config(
            ConfigResourceType.BROKER, prefix + name
        )
    assert is_secret_config(ConfigResourceType.TOPIC, prefix + "retention.ms"), (
        "topics have no listeners"
    )


def test_no_password_is_listed_as_public() -> None:
    assert not BROKER_PASSWORDS & PUBLIC_CONFIGS[ConfigResourceType.BROKER]
