"""Reads the security of each listener, and of this node's connections to its peers, from the
configuration.

All of it is checked at the start, and it fails closed: a key that is missing, impossible, or
protects less than it says keeps the server from starting. It reads key stores and opens no
connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.base.java.text import split_list
from gateway.config.config import ConfigError, SourceKind
from gateway.config.security import listener_of, of_listener
from gateway.config.values import LISTENER_MAX_CONNECTIONS
from gateway.security.client_properties import (
    LOGIN_MODULES,
    ClientPropertiesError,
    ClientSecurity,
    client_security,
    load_client_properties,
)
from gateway.security.client_tls import TlsSettings, read_tls
from gateway.security.jaas import JaasError, parse_jaas
from gateway.security.principal_rules import PrincipalRules
from gateway.security.sasl_client import MECHANISMS, PLAIN
from gateway.security.secret import Secret
from gateway.security.ssl_principal import ANONYMOUS, der_of, distinguished_name
from gateway.security.standard_authorizer import STANDARD_AUTHORIZER, parse_super_users

if TYPE_CHECKING:
    from gateway.config.config import Config

_CLIENT_AUTH: Final = ("none", "requested", "required")
#: Keys of a server that a client does not have.
_OF_SERVERS: Final = frozenset({"ssl.client.auth", "ssl.principal.mapping.rules"})
_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_USER: Final = "user_"


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener. ``mechanisms``: SASL mechanism -> lifetime of a session in ms
    (0: no end); None without SASL.

    ``passwords``: of PLAIN, by user. ``client_auth``, ``rules``: ``ssl.client.auth``,
    ``ssl.principal.mapping.rules``.
    """

    protocol: str
    tls: TlsSettings | None = None
    client_auth: str = "none"
    mechanisms: Mapping[str, int] | None = None
    passwords: Mapping[str, Secret] = field(default_factory=dict, repr=False)
    rules: PrincipalRules = field(default_factory=PrincipalRules)


def read_listeners(config: Config) -> dict[str, ListenerSecurity]:
    """Return the security of each listener, by name. Blocks on files. Raises ConfigError with every
    fault, those of the authorizer included.
    """
    problems = [*_ineffective_keys(config), *_authorizer_problems(config)]
    found = {}
    for listener in config.listeners:
        wrong: list[str] = []
        found[listener.name] = _listener(config, listener.name, wrong)
        problems.extend(f"listener {listener.name}: {problem}" for problem in wrong)
    if problems:
        raise ConfigError(*problems)
    return found


def node_security(config: Config) -> ClientSecurity:
    """Return how this node connects to its peers in the quorum: with the security of its own
    controller listener, since all nodes have the same.

    Blocks on files. Raises ConfigError.
    """
    return _security_as(config, config.controller_listener_names[0], _CONTROLLER_MECHANISM)


def upstream_security(config: Config) -> ClientSecurity:
    """Return how this node connects to controllers by ``command.config``.

    Blocks on files. Raises ConfigError.
    """
    if config.command_config is None:
        return ClientSecurity()
    try:
        return load_client_properties(config.command_config)
    except ClientPropertiesError as error:
        raise ConfigError(f"command.config: {error}") from None


def broker_security(config: Config) -> ClientSecurity:
    """Return how this broker connects to the others: with the security of its own listener for
    brokers, since all brokers have the same.

    Blocks on files. Raises ConfigError.
    """
    return _security_as(config, config.broker_listener_name, _BROKER_MECHANISM)


def _security_as(config: Config, listener: str, mechanism_key: str) -> ClientSecurity:
    protocol = config.security_protocol(listener)
    keys = of_listener(config.security, listener)
    tls = {
        key: value
        for key, value in keys.items()
        if key.startswith("ssl.") and key not in _OF_SERVERS
    }
    values = tls if protocol.endswith("SSL") else {}
    values["security.protocol"] = protocol
    if protocol.startswith("SASL"):
        mechanism = config.security.get(mechanism_key, "")
        if mechanism not in MECHANISMS:
            raise ConfigError(
                f"{mechanism_key}: {mechanism or 'missing'}: set it to one of"
                f" {', '.join(MECHANISMS)}"
            )
        jaas = f"{mechanism.lower()}.sasl.jaas.config"
        if jaas not in keys:
            raise ConfigError(
                f"listener.name.{listener.lower()}.{jaas}: missing: this node needs a user name to"
                " connect to the other nodes"
            )
        values |= {"sasl.mechanism": mechanism, "sasl.jaas.config": keys[jaas]}
    try:
        return client_security(values)
    except ClientPropertiesError as error:
        raise ConfigError(
            *(
                f"to the other nodes, as listener {listener}: {problem}"
                for problem in error.problems
            )
        ) from None


def check_own_principal(config: Config, security: ClientSecurity) -> None:
    """Raise ConfigError if the other nodes of the quorum would refuse this node's vote: it is not
    one of their super users.

    ACLs do not help: without a leader no node knows which ACLs are committed.
    """
    others = len(config.controller_quorum_voters) > 1 or config.controller_quorum_bootstrap_servers
    if config.authorizer_class_name is None or not others:
        return
    own = own_principal(config, security)
    if own not in parse_super_users(config.super_users):
        raise ConfigError(
            f"super.users: {own} is missing: the other voters know this node by that name and would"
            " refuse its vote"
        )


def own_principal(config: Config, security: ClientSecurity) -> str:
    """Return the principal by which other nodes know this node."""
    if security.sasl is not None:
        return f"User:{security.sasl.username}"
    listener = read_listeners(config).get(config.controller_listener_names[0])
    if (
        security.tls is None
        or security.tls.own is None
        or listener is None
        or listener.client_auth == "none"
    ):
        return ANONYMOUS
    return f"User:{listener.rules.name(distinguished_name(der_of(security.tls.own.chain)))}"


def _listener(config: Config, name: str, problems: list[str]) -> ListenerSecurity:
    protocol, values = config.security_protocol(name), of_listener(config.security, name)
    if protocol == "PLAINTEXT":
        return ListenerSecurity(protocol)
    tls, client_auth = None, "none"
    if protocol.endswith("SSL"):
        tls, client_auth = (
            read_tls(values, problems),
            _client_auth(config, name, protocol, values, problems),
        )
        if tls.own is None and not problems:
            problems.append(
                "ssl.keystore.location: missing: a listener that speaks TLS needs a key and its"
                " certificate"
            )
        if client_auth != "none" and tls.trusted is None:
            problems.append(
                f"ssl.client.auth={client_auth}: needs ssl.truststore.location, the issuers of the"
                " clients"
            )
    if not protocol.startswith("SASL"):
        return ListenerSecurity(protocol, tls, client_auth, rules=_rules(values, problems))
    mechanisms = _mechanisms(values, problems)
    passwords = _passwords(values, problems) if PLAIN in mechanisms else {}
    if any(one != PLAIN for one in mechanisms) and not config.source_kind.has_quorum:
        problems.append(
            "sasl.enabled.mechanisms: SCRAM needs users in the metadata log, which"
            f" source={config.source_kind} does not have"
        )
    return ListenerSecurity(protocol, tls, client_auth, mechanisms, passwords)


def _rules(values: Mapping[str, str], problems: list[str]) -> PrincipalRules:
    key = "ssl.principal.mapping.rules"
    try:
        return PrincipalRules(values.get(key, "DEFAULT"))
    except ValueError as error:
        problems.append(f"{key}: {error}")
        return PrincipalRules()


def _client_auth(
    config: Config, name: str, protocol: str, values: Mapping[str, str], problems: list[str]
) -> str:
    """Return ``ssl.client.auth``. A SASL listener asks for a certificate only if its own key says
    so (KIP-684).
    """
    key = "ssl.client.auth"
    own = {each.lower(): value for each, value in config.security.items()}.get(
        f"listener.name.{name.lower()}.{key}"
    )
    value = (own if protocol == "SASL_SSL" else values.get(key)) or "none"
    if value.lower() not in _CLIENT_AUTH:
        problems.append(f"{key}: {value!r} is none of {', '.join(_CLIENT_AUTH)}")
        return "required"
    return value.lower()


def _mechanisms(values: Mapping[str, str], problems: list[str]) -> dict[str, int]:
    key = "sasl.enabled.mechanisms"
    named = [one for one in split_list(values.get(key, "")) if one]
    if not named:
        problems.append(
            f"{key}: missing (Kafka's default is GSSAPI, which is not supported): some of"
            f" {', '.join(MECHANISMS)}"
        )
    problems.extend(
        f"{key}: {one!r} is none of {', '.join(MECHANISMS)}"
        for one in named
        if one not in MECHANISMS
    )
    known = [one for one in named if one in MECHANISMS]
    for one in known:
        if one != PLAIN and (jaas := values.get(f"{one.lower()}.sasl.jaas.config")):
            _options(jaas, one, problems)
    return {one: _max_reauth_ms(values, one, problems) for one in known}


def _max_reauth_ms(values: Mapping[str, str], mechanism: str, problems: list[str]) -> int:
    key = "connections.max.reauth.ms"
    text = values.get(f"{mechanism.lower()}.{key}", values.get(key, "0"))
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        problems.append(f"{key}: {text!r} is not a number of milliseconds")
        return 1
    return int(text)


def _passwords(values: Mapping[str, str], problems: list[str]) -> dict[str, Secret]:
    """Return the users of PLAIN: ``user_NAME="PASSWORD"`` among the options of its login module."""
    key = "plain.sasl.jaas.config"
    if key not in values:
        problems.append(f"{key}: missing: it holds the users of PLAIN, user_NAME=PASSWORD each")
        return {}
    options = _options(values[key], PLAIN, problems)
    users = {
        name.removeprefix(_USER): password
        for name, password in options.items()
        if name.startswith(_USER)
    }
    for name in (name for name, password in users.items() if not name or not password):
        problems.append(f"{key}: the user {name!r} has no name or no password")
    if not users and not problems:
        problems.append(f"{key}: it has no user_NAME: no client could authenticate")
    return users


def _options(text: str, mechanism: str, problems: list[str]) -> Mapping[str, Secret]:
    key = f"{mechanism.lower()}.sasl.jaas.config"
    try:
        module = parse_jaas(text)
    except JaasError as error:
        problems.append(f"{key}: {error}")
        return {}
    wanted = next(name for name, mechanisms in LOGIN_MODULES.items() if mechanism in mechanisms)
    if module.name != wanted and not module.name.endswith(f".{wanted}"):
        problems.append(f"{key}: the login module of {mechanism} is {wanted}")
    return module.options


def _ineffective_keys(config: Config) -> list[str]:
    """Return the keys of listeners that do not exist, or that would ignore them."""
    problems, names = [], {listener.name for listener in config.listeners}
    if config.source_kind is SourceKind.CONTROLLER:
        names |= set(config.controller_listener_names[:1])
    for key in config.security:
        listener = listener_of(key)
        if listener is None:
            continue
        if listener not in names:
            problems.append(f"{key}: there is no listener {listener}")
        elif config.security_protocol(listener) == "PLAINTEXT" and not key.endswith(
            f".{LISTENER_MAX_CONNECTIONS}"
        ):
            problems.append(
                f"{key}: has no effect on a listener with PLAINTEXT: see"
                " listener.security.protocol.map"
            )
    return problems


def _authorizer_problems(config: Config) -> list[str]:
    name = config.authorizer_class_name
    if name is None:
        given = {
            "super.users": config.super_users,
            "allow.everyone.if.no.acl.found": config.allow_everyone_if_no_acl_found,
        }
        return [
            f"{key}: has no effect without authorizer.class.name: every client may do everything"
            for key in given
            if given[key]
        ]
    problems = []
    if name != STANDARD_AUTHORIZER:
        problems.append(f"authorizer.class.name: {name!r} is not {STANDARD_AUTHORIZER}")
    if not config.source_kind.has_quorum:
        problems.append(
            f"authorizer.class.name: source={config.source_kind} has no ACLs; set it to"
            " 'controller' or 'observer'"
        )
    try:
        parse_super_users(config.super_users)
    except ValueError as error:
        problems.append(f"super.users: {error}")
    return problems
