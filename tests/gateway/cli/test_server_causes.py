"""How every command that names a server connects to it: with the security of ``--command-config``,
and with the cause of a failure in words.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.ports.services import AUDIT_TOPIC
from tests.gateway.handlers.mini_server import serving
from tests.gateway.server.guarded import Place, place
from tools.kafka_security import (
    Authority,
    key_store_properties,
    properties_text,
    sasl_client_properties,
    trust_store_properties,
)

PORTS: dict[str, int] = {}
#: Each command with a server's address and the file of ``--command-config``.
COMMANDS = {
    "tail": lambda at, file: ["tail", "-b", at, "--until-end", "--command-config", file],
    "state": lambda at, file: ["state", "-b", at, "--command-config", file],
    "diff": lambda at, file: ["diff", f"{at}@0", at, "--command-config", file],
    "apis": lambda at, file: ["apis", "-b", at, "--command-config", file],
    "views": lambda at, file: ["views", "-b", at, "--command-config", file],
}


def properties(directory: Path, server: Place, **more: str) -> dict[str, str]:
    """Keys of a client of every listener; ``more`` with underscores for dots takes precedence."""
    values = trust_store_properties(directory / "trust.pem", server.authority)
    values |= key_store_properties(directory / "friend.pem", server.authority.issue("friend"))
    values |= sasl_client_properties("PLAIN", "bob", "secret")
    return values | {name.replace("_", "."): value for name, value in more.items()}


def file_of(directory: Path, protocol: str, values: dict[str, str]) -> str:
    path = directory / "client.properties"
    kept = {
        key: value
        for key, value in values.items()
        if (not key.startswith("ssl.") or protocol.endswith("SSL"))
        and (not key.startswith("sasl.") or protocol.startswith("SASL"))
    }
    path.write_text(properties_text({"security.protocol": protocol} | kept))
    return str(path)


def against(directory: Path, work: Callable[[Place], None]) -> None:
    """Run ``work`` in a thread, beside a server with listeners of every kind."""

    async def run() -> None:
        async with place(directory, connection_failed_authentication_delay_ms=0) as server:
            await trio.to_thread.run_sync(work, server)

    trio.run(run)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reads_a_secured_server(tmp_path: Path, command: str) -> None:
    def work(server: Place) -> None:
        for listener, protocol in (
            ("MUTUAL", "SSL"),
            ("SASL", "SASL_PLAINTEXT"),
            ("BOTH", "SASL_SSL"),
        ):
            file = file_of(tmp_path, protocol, properties(tmp_path, server))
            at = f"127.0.0.1:{server.port(listener)}"
            result = called(*COMMANDS[command](at, file))
            assert result.exit_code == (1 if command == "diff" else 0), result.output
            assert result.stdout

    against(tmp_path, work)


#: Listener, protocol of the client, keys that differ, and words of the error.
FAILURES = {
    "tls listener": ("TLS", "PLAINTEXT", {}, "this listener speaks TLS", "security.protocol=SSL"),
    "tls and sasl": ("BOTH", "PLAINTEXT", {}, "speaks TLS and wants SASL", "=SASL_SSL"),
    "sasl listener": ("SASL", "PLAINTEXT", {}, "wants SASL", "(it offers 'PLAIN')"),
    "no tls": ("PLAINTEXT", "SSL", {}, "speaks no TLS", "security.protocol=PLAINTEXT"),
    "no sasl": ("PLAINTEXT", "SASL_PLAINTEXT", {}, "wants no SASL", "set security.protocol"),
    "password": (
        "SASL",
        "SASL_PLAINTEXT",
        sasl_client_properties("PLAIN", "bob", "wrong"),
        "SASL_AUTHENTICATION_FAILED",
        "check username and password",
    ),
    "mechanism": (
        "SASL",
        "SASL_PLAINTEXT",
        sasl_client_properties("SCRAM-SHA-256", "bob", "secret"),
        "does not have SCRAM-SHA-256",
        "set sasl.mechanism",
    ),
    "authority": (
        "TLS",
        "SSL",
        {"other": ""},
        "certificate was refused",
        "ssl.truststore.location",
    ),
    "no certificate": ("MUTUAL", "SSL", {"own": ""}, "client certificate", "ssl.keystore.location"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failed_connection_is_explained_with_the_key_to_set(tmp_path: Path, failure: str) -> None:
    listener, protocol, changed, cause, advice = FAILURES[failure]

    def work(server: Place) -> None:
        values = properties(tmp_path, server)
        if "other" in changed:
            values |= trust_store_properties(tmp_path / "other.pem", Authority("Other"))
        if "own" in changed:
            values = {key: one for key, one in values.items() if "keystore" not in key}
        values |= {key: one for key, one in changed.items() if "." in key}
        file = file_of(tmp_path, protocol, values)
        at = f"127.0.0.1:{server.port(listener)}"
        result = called("tail", "-b", at, "--until-end", "--command-config", file)
        assert result.exit_code == 1
        assert at in result.stderr and cause in result.stderr and advice in result.stderr
        assert "secret" not in result.stderr and "wrong" not in result.stderr

    against(tmp_path, work)


def test_certificate_of_another_host_is_explained(tmp_path: Path) -> None:
    def work(server: Place) -> None:
        file = file_of(tmp_path, "SSL", properties(tmp_path, server))
        at = f"127.1:{server.port('TLS')}"  # the same address by a name that no certificate has
        result = called("state", "-b", at, "--command-config", file)
        assert (result.exit_code, "by a name that is in its certificate" in result.stderr) == (
            1,
            True,
        )

    against(tmp_path, work)


@pytest.fixture
def closed_port() -> Iterator[str]:
    """A bound address at which no process listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_closed_port_and_unknown_host_are_named(
    tmp_path: Path, closed_port: str, command: str
) -> None:
    empty = tmp_path / "empty.properties"
    empty.touch()
    refused = called(*COMMANDS[command](closed_port, str(empty)))
    assert f"{closed_port} (PLAINTEXT): cannot connect: Connection refused" in refused.stderr
    unknown = called(*COMMANDS[command]("host.invalid:9092", str(empty)))
    assert "host.invalid:9092 (PLAINTEXT): cannot connect: " in unknown.stderr
    status = 2 if command == "diff" else 1
    assert (refused.exit_code, unknown.exit_code) == (status, status)


def test_second_address_is_used_if_the_first_is_closed(closed_port: str) -> None:
    with serving() as server:
        result = called("tail", "-b", f"{closed_port},127.0.0.1:{server.port}", "--until-end")
    assert (result.exit_code, json.loads(result.stdout.splitlines()[0])["offset"]) == (0, 3)


def test_topic_that_is_not_served_is_named() -> None:
    with serving() as server:
        result = called("tail", "-b", f"127.0.0.1:{server.port}", "--topic", AUDIT_TOPIC)
    assert (result.exit_code, f"has no topic {AUDIT_TOPIC}" in result.stderr) == (1, True)
