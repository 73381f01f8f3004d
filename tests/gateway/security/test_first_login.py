"""A configuration with which no super user could log in is found before the first start."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config.config import Config, Listener
from gateway.security.first_login import lockout
from gateway.security.listeners import read_listeners
from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from tools.kafka_security import PLAIN_MODULE

NODE = "User:node"
SCRAM = {"listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512"}
PLAIN = {
    "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="x";',
}
CONTROLLER = {
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="node" password="x" user_node="x";'
    ),
}
OPERATOR = CONTROLLER | {
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required username="node" password="x" user_node="x" user_admin="y";'
    ),
}


def found(
    security: dict[str, str],
    credentials: set[tuple[str, str]] = frozenset(),  # type: ignore[assignment]
    clients: str = "SASL_PLAINTEXT",
    **more: Any,
) -> str | None:
    config = Config(
        **{
            "source": "own",
            "listeners": (
                Listener("CLIENTS", "127.0.0.1", 0),
                Listener("CONTROLLER", "127.0.0.1", 0),
            ),
            "listener_security_protocol_map": {"CLIENTS": clients, "CONTROLLER": "SASL_PLAINTEXT"},
            "security": CONTROLLER | security,
            "authorizer_class_name": STANDARD_AUTHORIZER,
            "super_users": f"{NODE};User:admin",
            **more,
        }
    )
    return lockout(config, read_listeners(config), credentials, NODE)


def test_scram_without_a_credential_of_a_super_user_locks_everybody_out() -> None:
    said = found(SCRAM, {("SCRAM-SHA-512", "alice"), ("SCRAM-SHA-256", "admin")})
    assert said is not None and "CLIENTS (SCRAM-SHA-512)" in said
    assert "kwire format --add-scram 'SCRAM-SHA-512=[name=NAME,password=...]'" in said


@pytest.mark.parametrize(
    ("security", "credentials"),
    [
        (SCRAM, {("SCRAM-SHA-512", "admin")}),
        (PLAIN, set()),
        (SCRAM | OPERATOR, set()),
    ],
    ids=["credential", "password", "password at a listener for controllers"],
)
def test_super_user_that_can_log_in_is_enough(
    security: dict[str, str], credentials: set[tuple[str, str]]
) -> None:
    assert found(security, credentials) is None


def test_anonymous_super_user_needs_a_listener_without_authentication() -> None:
    assert found({}, clients="PLAINTEXT", super_users=f"{NODE};User:ANONYMOUS") is None
    assert "CLIENTS (PLAINTEXT)" in str(found({}, clients="PLAINTEXT"))


def test_no_super_user_at_all_is_named() -> None:
    assert "super.users: empty" in str(found(PLAIN, super_users=""))


@pytest.mark.parametrize(
    "more",
    [
        {"authorizer_class_name": None, "super_users": ""},
        {"allow_everyone_if_no_acl_found": True},
    ],
    ids=["no authorizer", "everything is allowed without ACLs"],
)
def test_cluster_where_everybody_may_do_everything_needs_no_super_user(
    more: dict[str, Any],
) -> None:
    assert found(SCRAM, **more) is None
