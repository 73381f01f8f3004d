"""Security settings that keep a server from starting: missing, unknown, or weaker than they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.config.config import Config, ConfigError, Listener
from gateway.security.listeners import check_own_principal, node_security, read_listeners
from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    PLAIN_MODULE,
    Authority,
    key_store_properties,
    sasl_server_properties,
    trust_store_properties,
)

USERS = f'{PLAIN_MODULE} required user_bob="x";'
PLAIN = {"sasl.enabled.mechanisms": "PLAIN", "listener.name.one.plain.sasl.jaas.config": USERS}


def config(protocol: str, security: dict[str, str], **more: Any) -> Config:
    listeners = (Listener("ONE", "127.0.0.1", 0), Listener("CONTROLLER", "127.0.0.1", 0))
    protocols = {"ONE": protocol, "CONTROLLER": more.pop("controllers", "PLAINTEXT")}
    return Config(
        **{
            "source": "own",
            "listeners": listeners,
            "listener_security_protocol_map": protocols,
            "security": security,
            **more,
        }
    )


def refusal(protocol: str, security: dict[str, str], **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read_listeners(config(protocol, security, **more))
    return str(caught.value)


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, str]:
    authority = Authority()
    keys = key_store_properties(tmp_path / "node.pem", authority.issue("node"))
    return keys | trust_store_properties(tmp_path / "ca.pem", authority)


def test_plaintext_needs_nothing() -> None:
    found = read_listeners(config("PLAINTEXT", {}))
    assert {name: one.protocol for name, one in found.items()} == {
        "ONE": "PLAINTEXT",
        "CONTROLLER": "PLAINTEXT",
    }


def test_client_auth_of_a_listener_precedes_the_general_one(stores: dict[str, str]) -> None:
    one = read_listeners(config("SSL", stores))["ONE"]
    assert (
        one.tls is not None
        and one.tls.own is not None
        and (one.client_auth, one.mechanisms) == ("none", None)
    )
    for mine in ("required", "REQUESTED"):
        own = {"ssl.client.auth": "none", "listener.name.one.ssl.client.auth": mine}
        assert read_listeners(config("SSL", stores | own))["ONE"].client_auth == mine.lower()


def test_sasl_listener_requests_a_certificate_only_by_its_own_key(
    stores: dict[str, str],
) -> None:
    values = stores | PLAIN | {"ssl.client.auth": "required"}
    assert read_listeners(config("SASL_SSL", values))["ONE"].client_auth == "none"
    values["listener.name.one.ssl.client.auth"] = "required"
    assert read_listeners(config("SASL_SSL", values))["ONE"].client_auth == "required"


def test_sasl_listener_takes_mechanisms_and_reauthentication_times() -> None:
    more = {
        "connections.max.reauth.ms": "5000",
        "listener.name.one.scram-sha-512.connections.max.reauth.ms": "7000",
    }
    values = PLAIN | more | {"listener.name.one.sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN"}
    one = read_listeners(config("SASL_PLAINTEXT", values))["ONE"]
    assert one.mechanisms == {"SCRAM-SHA-512": 7000, "PLAIN": 5000}
    assert {user: secret.reveal() for user, secret in one.passwords.items()} == {"bob": "x"}
    assert "x" not in str(one.passwords["bob"])


@pytest.mark.parametrize(
    ("protocol", "values", "said"),
    [
        ("SSL", {}, "ssl.keystore.location: missing"),
        (
            "SSL",
            {"ssl.keystore.location": "/nowhere.p12", "ssl.keystore.password": "x"},
            "cannot be read",
        ),
        ("SASL_SSL", PLAIN, "ssl.keystore.location: missing"),
        ("SASL_PLAINTEXT", {}, "sasl.enabled.mechanisms: missing"),
        ("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "GSSAPI"}, "'GSSAPI' is none of"),
        ("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "PLAIN"}, "plain.sasl.jaas.config: missing"),
        (
            "SASL_PLAINTEXT",
            PLAIN | {"listener.name.one.plain.sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            "no user_NAME",
        ),
        (
            "SASL_PLAINTEXT",
            PLAIN
            | {"listener.name.one.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_bob="";'},
            "no password",
        ),
        (
            "SASL_PLAINTEXT",
            PLAIN
            | {"listener.name.one.plain.sasl.jaas.config": 'a.OtherModule required user_bob="x";'},
            "module of PLAIN",
        ),
        (
            "SASL_PLAINTEXT",
            PLAIN | {"listener.name.one.plain.sasl.jaas.config": "x"},
            "control flag",
        ),
        ("SASL_PLAINTEXT", PLAIN | {"connections.max.reauth.ms": "-1"}, "'-1' is not a number"),
        (
            "PLAINTEXT",
            {"listener.name.one.ssl.client.auth": "required"},
            "has no effect on a listener with PLAINTEXT",
        ),
        (
            "PLAINTEXT",
            {"listener.name.two.ssl.client.auth": "required"},
            "there is no listener TWO",
        ),
    ],
)
def test_wrong_listener_is_refused_with_the_reason(
    protocol: str, values: dict[str, str], said: str
) -> None:
    assert said in refusal(protocol, values)


def test_refused_with_stores(stores: dict[str, str]) -> None:
    assert "'often' is none of" in refusal("SSL", stores | {"ssl.client.auth": "often"})
    assert "no rule at character 1" in refusal(
        "SSL", stores | {"ssl.principal.mapping.rules": "CN=(.*)"}
    )
    assert "older ones are not safe" in refusal(
        "SSL", stores | {"ssl.enabled.protocols": "TLSv1.1"}
    )
    only_keys = {key: value for key, value in stores.items() if "truststore" not in key}
    assert "needs ssl.truststore.location" in refusal(
        "SSL", only_keys | {"ssl.client.auth": "requested"}
    )


def test_users_in_a_log_that_is_not_kept() -> None:
    listeners = (Listener("ONE", "127.0.0.1", 0),)
    values = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    assert "SCRAM needs users" in refusal(
        "SASL_PLAINTEXT", values, source="sample", listeners=listeners
    )
    said = refusal(
        "PLAINTEXT",
        {},
        source="sample",
        listeners=listeners,
        authorizer_class_name=STANDARD_AUTHORIZER,
    )
    assert "has no ACLs" in said


def test_the_authorizer() -> None:
    assert "'kafka.security.authorizer.AclAuthorizer' is not" in refusal(
        "PLAINTEXT", {}, authorizer_class_name="kafka.security.authorizer.AclAuthorizer"
    )
    assert "principalType:principalName" in refusal(
        "PLAINTEXT", {}, authorizer_class_name=STANDARD_AUTHORIZER, super_users="bob"
    )
    assert "super.users: has no effect without" in refusal("PLAINTEXT", {}, super_users="User:bob")
    assert "allow.everyone" in refusal("PLAINTEXT", {}, allow_everyone_if_no_acl_found=True)


def test_to_the_other_nodes_as_their_listener_wants_it(stores: dict[str, str]) -> None:
    assert str(node_security(config("PLAINTEXT", {}))) == "PLAINTEXT"
    assert node_security(config("PLAINTEXT", stores, controllers="SSL")).tls is not None
    values = (
        stores
        | sasl_server_properties("controller")
        | {"sasl.mechanism.controller.protocol": "PLAIN"}
    )
    security = node_security(config("PLAINTEXT", values, controllers="SASL_SSL"))
    assert security.sasl is not None and security.tls is not None
    assert (security.sasl.username, security.sasl.password.reveal()) == (ADMIN, ADMIN_PASSWORD)
    for missing in (
        "sasl.mechanism.controller.protocol",
        "listener.name.controller.plain.sasl.jaas.config",
    ):
        with pytest.raises(ConfigError, match=missing):
            node_security(
                config(
                    "PLAINTEXT",
                    {k: v for k, v in values.items() if k != missing},
                    controllers="SASL_SSL",
                )
            )


def test_nodes_of_a_quorum_with_an_authorizer_have_to_be_super_users(
    stores: dict[str, str],
) -> None:
    def check(super_users: str, values: dict[str, str], controllers: str) -> None:
        from gateway.base.address import Address

        voters = {1: Address("h1", 9093), 2: Address("h2", 9093)}
        listeners = (Listener("ONE", "127.0.0.1", 0), Listener("CONTROLLER", "127.0.0.1", 9093))
        tested = config(
            "PLAINTEXT",
            values,
            controllers=controllers,
            listeners=listeners,
            controller_quorum_voters=voters,
            authorizer_class_name=STANDARD_AUTHORIZER,
            super_users=super_users,
        )
        check_own_principal(tested, node_security(tested))

    sasl = sasl_server_properties("controller") | {"sasl.mechanism.controller.protocol": "PLAIN"}
    check(f"User:{ADMIN}", sasl, "SASL_PLAINTEXT")
    check("User:CN=node", stores | {"ssl.client.auth": "required"}, "SSL")
    rules = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}
    check("User:NODE", stores | rules, "SSL")
    for users, values, protocol, own in (
        (f"User:{OUTSIDER}", sasl, "SASL_PLAINTEXT", "User:admin"),
        ("User:CN=other", stores | {"ssl.client.auth": "required"}, "SSL", "User:CN=node"),
        ("User:CN=node", stores, "SSL", "User:ANONYMOUS"),
        ("User:CN=node", {}, "PLAINTEXT", "User:ANONYMOUS"),
    ):
        with pytest.raises(ConfigError, match=f"super.users: {own} is missing"):
            check(users, values, protocol)
