"""Asks Kafka's own code whether the value of a config is secret: for every name of the table,
and for unknown names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.protocol import ConfigResourceType
from kwire.records.redact import is_secret_config
from kwire.records.secret_table import BROKER_PASSWORDS, PUBLIC_CONFIGS
from tests.interop.clients import need_java
from tests.interop.java_source import run_source

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("AskSecrets.java")
UNKNOWN = (
    "my.plugin.password",
    "password.encoder.secret",
    "retention.msx",
    "x",
    "zookeeper.connect",
)
LISTENER = "listener.name.external."
OF_LISTENERS = (
    *BROKER_PASSWORDS,
    "ssl.keystore.location",
    "ssl.client.auth",
    "max.connections",
    "my.plugin.password",
    "scram-sha-256.sasl.jaas.config",
    "plain.connections.max.reauth.ms",
    "plain.sasl.server.callback.handler.class",
)


def test_kafka_hides_the_configs_that_the_table_hides() -> None:
    need_java()
    asked = [
        (kind, name)
        for kind in (ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP)
        for name in (*sorted(PUBLIC_CONFIGS[kind]), *UNKNOWN)
    ]
    asked += [(ConfigResourceType.BROKER, name) for name in sorted(BROKER_PASSWORDS)] + [
        (ConfigResourceType.BROKER, LISTENER + name) for name in OF_LISTENERS
    ]
    lines = run_source(PROGRAM, given="".join(f"{kind} {name}\n" for kind, name in asked))
    said = [line == "true" for line in lines.split()]
    shown = [(kind, name) for (kind, name), secret in zip(asked, said, strict=True) if not secret]
    assert not [one for one in shown if is_secret_config(*one)], "Kafka shows what is hidden here"
    hidden = [(kind, name) for (kind, name), secret in zip(asked, said, strict=True) if secret]
    not_hidden = [(kind, name) for kind, name in hidden if not is_secret_config(kind, name)]
    assert len(shown) > 380 and len(hidden) > 30
    assert len(not_hidden) < 100, "those of other releases, which this one does not know"
    endings = ("password", "secret", "passphrase", "jaas.config", ".key")
    assert not [name for _, name in not_hidden if name.endswith(endings)]
