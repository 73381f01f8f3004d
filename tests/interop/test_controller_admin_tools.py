"""Kafka's tools for ACLs, quotas, SCRAM users and delegation tokens print the same with kwire
as with Kafka.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.test_controller_token_answers import SECRET, kafka_of_users, ours_of_users
from tools import java_tools
from tools.java import JavaError
from tools.kafka_security import ADMIN, ADMIN_PASSWORD, properties_text, sasl_client_properties

_ACLS: Final = "org.apache.kafka.tools.AclCommand"
_CONFIGS: Final = "kafka.admin.ConfigCommand"
_TOKENS: Final = "org.apache.kafka.tools.DelegationTokenCommand"
#: Where a command wants the password of the token that was made.
_PASSWORD: Final = "PASSWORD"
#: (tool, its arguments), each finding what those before it left.
COMMANDS: Final[tuple[tuple[str, str], ...]] = (
    (_ACLS, "--add --allow-principal User:ann --producer --topic orders"),
    (
        _ACLS,
        (
            "--add --deny-principal User:bob --deny-host 10.0.0.1 --operation Read --topic or "
            "--resource-pattern-type prefixed"
        ),
    ),
    (_ACLS, "--list"),
    (_ACLS, "--list --topic orders --resource-pattern-type match"),
    (_ACLS, "--remove --force --allow-principal User:ann --operation Write --topic orders"),
    (_ACLS, "--list --principal User:ann"),
    (
        _CONFIGS,
        (
            "--alter --entity-type users --entity-name ann --add-config "
            "producer_byte_rate=1024,request_percentage=12.5"
        ),
    ),
    (
        _CONFIGS,
        (
            "--alter --entity-type users --entity-default --entity-type clients --entity-name c "
            "--add-config consumer_byte_rate=9"
        ),
    ),
    (_CONFIGS, "--alter --entity-type users --entity-name ann --add-config consumer_byte_rate=-1"),
    (
        _CONFIGS,
        "--alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=5",
    ),
    (
        _CONFIGS,
        (
            "--alter --entity-type users --entity-name ann --add-config "
            "SCRAM-SHA-256=[iterations=8192,password=secret]"
        ),
    ),
    (_CONFIGS, "--describe --entity-type users"),
    (_CONFIGS, "--describe --entity-type users --entity-type clients"),
    (_CONFIGS, "--describe --entity-type ips"),
    (
        _CONFIGS,
        (
            "--alter --entity-type users --entity-name ann --delete-config "
            "SCRAM-SHA-256,producer_byte_rate"
        ),
    ),
    (_CONFIGS, "--alter --entity-type users --entity-name ann --delete-config SCRAM-SHA-256"),
    (_CONFIGS, "--describe --entity-type users --entity-name ann"),
    (_TOKENS, "--create --max-life-time-period -1 --renewer-principal User:ann"),
    (_TOKENS, f"--renew --renew-time-period 600000 --hmac {_PASSWORD}"),
    (_TOKENS, "--describe"),
    (_TOKENS, f"--expire --expiry-time-period -1 --hmac {_PASSWORD}"),
    (_TOKENS, f"--expire --expiry-time-period -1 --hmac {_PASSWORD}"),
)
#: Kafka's controller answers a change before it publishes it to its own token and ACL caches.
_PUBLISH_S: Final = 1.0
_CHANGE: Final = re.compile(r"--(?:add|alter|create|delete|expire|remove|renew)\b")
_HMAC: Final = re.compile(r"[A-Za-z0-9+/]{86}==")
#: Output that differs between runs: passwords, ids, times, and the stack of an exception.
_PASSING: Final = (
    (_HMAC, "HMAC"),
    (re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d|\w{3} \w{3} \d\d [\d:]{8} \w+ \d{4}"), "TIME"),
    (re.compile(r"(?m)^\s+at .*\n?"), ""),
    (re.compile(r"\s+"), " "),
)


def test_tools_print_the_same_with_kwire_as_with_kafka(tmp_path: Path) -> None:
    need_java()
    client = tmp_path / "client.properties"
    client.write_text(
        properties_text(
            {
                "security.protocol": "SASL_PLAINTEXT",
                **sasl_client_properties("PLAIN", ADMIN, ADMIN_PASSWORD),
            }
        )
    )
    with kafka_of_users(SECRET) as cluster, ours_of_users(tmp_path, SECRET) as server:
        expected, printed = _printed(cluster.bootstrap, client), _printed(server.bootstrap, client)
    for (_, arguments), kafkas, kwires in zip(COMMANDS, expected, printed, strict=True):
        assert kwires == kafkas, f"{arguments}: {kwires} for {kafkas}"
    FIGURES.append(
        f"admin tools: {len(COMMANDS)} commands about ACLs, quotas, SCRAM users and tokens, the "
        "same output"
    )


def _printed(address: str, client: Path) -> list[list[str]]:
    """The output or the failure of each command, its lines sorted."""
    printed, password = [], ""
    for tool, arguments in COMMANDS:
        where = ["--bootstrap-server", address, "--command-config", str(client)]
        try:
            text = java_tools.run_tool(
                tool, [*where, *arguments.replace(_PASSWORD, password).split()]
            )
        except JavaError as error:
            text = str(error)
        if _CHANGE.search(arguments):
            time.sleep(_PUBLISH_S)
        if password == "" and (found := _HMAC.search(text)):
            password = found[0]
        printed.append(
            sorted(filter(None, map(_lasting, text.replace(address, "ADDRESS").splitlines())))
        )
    return printed


def _lasting(line: str) -> str:
    for pattern, name in _PASSING:
        line = pattern.sub(name, line)
    return line.strip()
