"""Secrets are taken out of decoded records, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.cli.redact import REDACTED, redact
from tests.shared import needs_shared

SCRAM = {"name": "ann", "mechanism": 2, "salt": "c2FsdA==", "storedKey": "a2V5", "serverKey": "a2V5", "iterations": 8192}


def test_scram_keys_are_hidden_and_the_rest_is_not() -> None:
    before = dict(SCRAM)
    assert redact("USER_SCRAM_CREDENTIAL_RECORD", SCRAM) == {
        "name": "ann", "mechanism": 2, "salt": REDACTED, "storedKey": REDACTED, "serverKey": REDACTED, "iterations": 8192
    }  # fmt: skip
    assert before == SCRAM


def config(name: str, value: str | None = "hunter2", resource_type: int = 4) -> dict[str, Any]:
    return {"resourceType": resource_type, "resourceName": "1", "name": name, "value": value}


# Every config of Kafka 4.4.0 whose type is PASSWORD.
PASSWORD_CONFIGS = [
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
]


@pytest.mark.parametrize("name", PASSWORD_CONFIGS)
@pytest.mark.parametrize("prefix", ["", "listener.name.external.", "listener.name.sasl.scram-sha-512."])
def test_values_of_sensitive_configs_are_hidden(prefix: str, name: str) -> None:
    shown = redact("CONFIG_RECORD", config(prefix + name))
    assert shown == {"resourceType": 4, "resourceName": "1", "name": prefix + name, "value": REDACTED}


@pytest.mark.parametrize("name", ["my.plugin.Password", "remote.storage.secret.access", "x.api.credentials"])
def test_so_are_those_that_only_sound_like_one(name: str) -> None:
    assert redact("CONFIG_RECORD", config(name))["value"] == REDACTED


@pytest.mark.parametrize(
    "name", ["retention.ms", "cleanup.policy", "log.retention.bytes", "listener.name.external.ssl.keystore.location", "match"]
)
def test_other_configs_are_not(name: str) -> None:
    data = config(name)
    assert redact("CONFIG_RECORD", data) is data


def test_that_a_config_was_removed_is_no_secret() -> None:
    assert redact("CONFIG_RECORD", config("ssl.key.password", None))["value"] is None


@pytest.mark.parametrize("kind", ["TOPIC_RECORD", "DELEGATION_TOKEN_RECORD", "REMOVE_USER_SCRAM_CREDENTIAL_RECORD"])
def test_other_records_are_passed_through(kind: str) -> None:
    data = {"name": "password", "salt": "x", "value": "y"}
    assert redact(kind, data) is data


@needs_shared
def test_no_secret_of_a_real_log_survives(logs: Any) -> None:
    hidden = 0
    for truth in sorted((logs("p-one-basic") / "truth" / "1").glob("*.log.jsonl")):
        for line in truth.read_text(encoding="utf-8").split("\n"):
            record = json.loads(line) if line else {}
            if "type" not in record:
                continue
            data = record["data"]
            secrets = [
                data[m] for m in ("salt", "storedKey", "serverKey") if record["type"].startswith("USER_SCRAM") and m in data
            ]
            if any(word in str(data.get("name")) for word in ("password", "jaas")):
                secrets.append(data["value"])
            shown = json.dumps(redact(record["type"], data))
            for secret in filter(None, secrets):
                hidden += 1
                assert json.dumps(secret) not in shown
    assert hidden > 10
