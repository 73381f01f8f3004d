"""Options of Spark that ``--command-config`` gives, and delegation tokens in its file."""

from __future__ import annotations

import stat
from pathlib import Path

import click
import pytest

from gateway.cli.server_options import client_security
from gateway.cli.spark import client_options
from kwire.spark.source.options import settings_of
from tools.kafka_security import (
    Authority,
    key_store_properties,
    properties_text,
    sasl_client_properties,
    trust_store_properties,
)


def file_of(directory: Path, values: dict[str, str]) -> Path:
    path = directory / "client.properties"
    path.write_text(properties_text(values))
    return path


def test_spark_connects_with_the_security_of_the_file(tmp_path: Path) -> None:
    authority = Authority()
    values = {"security.protocol": "SASL_SSL"} | sasl_client_properties(
        "SCRAM-SHA-512", "ann", "hush"
    )
    values |= trust_store_properties(tmp_path / "ca.pem", authority)
    values |= key_store_properties(tmp_path / "own.p", authority.issue("ann"))
    options = client_options(client_security(file_of(tmp_path, values)), tmp_path)
    client = settings_of({"bootstrap.servers": "h:1", **options}).client
    assert (client["security_protocol"], client["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (client["sasl_plain_username"], client["sasl_plain_password"]) == ("ann", "hush")
    assert client["ssl_check_hostname"] is True
    assert Path(str(client["ssl_cafile"])).read_text() == authority.pem
    own = Path(str(client["ssl_keyfile"]))
    assert "PRIVATE KEY" in own.read_text() and stat.S_IMODE(own.stat().st_mode) == 0o600


def test_spark_without_a_file_connects_in_plaintext(tmp_path: Path) -> None:
    assert client_options(client_security(None), tmp_path) == {
        "kafka.security_protocol": "PLAINTEXT"
    }


def test_delegation_token_is_one_for_scram_and_refused_for_spark(tmp_path: Path) -> None:
    values = {"security.protocol": "SASL_PLAINTEXT"} | sasl_client_properties(
        "SCRAM-SHA-256", "id", "hmac"
    )
    values["sasl.jaas.config"] = values["sasl.jaas.config"].replace(";", ' tokenauth="true";')
    security = client_security(file_of(tmp_path, values))
    assert security.sasl is not None and security.sasl.is_token
    with pytest.raises(click.ClickException, match="no delegation tokens"):
        client_options(security, tmp_path)
