"""No secret of a record is left in its decoded form, and nothing else is touched."""

from __future__ import annotations

import pytest

from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.records.redact import REDACTED, redact

SCRAM = UserScramCredentialRecord(name="eve", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)


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
    assert redact("USER_SCRAM_CREDENTIAL_RECORD", {"salt": b"s", "name": "eve"}) == {"salt": b"(redacted)", "name": "eve"}


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
    ],
)
def test_secret_configs(name: str) -> None:
    data = {"resourceType": 4, "resourceName": "1", "name": name, "value": "hunter2"}
    assert redact("CONFIG_RECORD", data) == {**data, "value": REDACTED}
    assert data["value"] == "hunter2"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("CONFIG_RECORD", {"name": "retention.ms", "value": "1"}),
        ("CONFIG_RECORD", {"name": "ssl.key.password", "value": None}),
        ("TOPIC_RECORD", {"name": "password", "value": "x"}),
    ],
)
def test_the_rest_is_left_as_it_is(kind: str, data: dict[str, object]) -> None:
    assert redact(kind, data) is data
