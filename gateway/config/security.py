"""Names the keys of listeners' security, and finds those that apply to a listener.

As in Kafka, an ``ssl.`` or ``sasl.`` key applies to all listeners; with the prefix
``listener.name.NAME.`` it applies to one, and takes precedence. Values can be secrets, so these
keys are no ``Key``: they have no flag and are never shown. ``gateway.security`` interprets them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.config.values import ENVIRONMENT_PREFIX, LISTENER_MAX_CONNECTIONS

_STORES: Final = tuple(
    f"ssl.{store}.{what}"
    for store in ("keystore", "truststore")
    for what in ("location", "type", "password")
)
#: With the listener's prefix or without it.
LISTENER_KEYS: Final = (
    *_STORES,
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.client.auth",
    "ssl.principal.mapping.rules",
    "sasl.enabled.mechanisms",
    "connections.max.reauth.ms",
)
#: After the prefixes of a listener and a mechanism (``listener.name.NAME.plain.``).
MECHANISM_KEYS: Final = ("sasl.jaas.config", "connections.max.reauth.ms")
#: Keys of the node, not of a listener: its credentials at other nodes, the secret of delegation
#: tokens, and the token of the management port.
NODE_KEYS: Final = (
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "delegation.token.secret.key",
    "management.token",
)
MECHANISMS: Final = ("plain", "scram-sha-256", "scram-sha-512")

_SUFFIXES: Final = (
    *LISTENER_KEYS,
    LISTENER_MAX_CONNECTIONS,
    *(f"{mechanism}.{key}" for mechanism in MECHANISMS for key in MECHANISM_KEYS),
)
_PREFIXED: Final = re.compile(r"listener\.name\.(?P<listener>[A-Za-z0-9_]+)\.(?P<key>.+)")


def is_security_key(name: str) -> bool:
    """True for the name of such a key, with or without the prefixes of listener and mechanism."""
    match = _PREFIXED.fullmatch(name)
    return match["key"] in _SUFFIXES if match else name in (*LISTENER_KEYS, *NODE_KEYS)


def listener_of(name: str) -> str | None:
    """The listener, in capitals, in the prefix of the key; None without a prefix."""
    match = _PREFIXED.fullmatch(name)
    return match["listener"].upper() if match else None


def of_listener(values: Mapping[str, str], listener: str) -> dict[str, str]:
    """The values that apply to the listener, without prefix; its own take precedence."""
    general = {name: value for name, value in values.items() if listener_of(name) is None}
    prefix = f"listener.name.{listener.lower()}."
    own = {
        name.lower().removeprefix(prefix): value
        for name, value in values.items()
        if name.lower().startswith(prefix)
    }
    return general | own


def key_of_variable(variable: str) -> str | None:
    """The key that an environment variable sets, or None. The name of a listener may contain
    underscores, so the longest key that fits the end is tried first.
    """
    if not variable.startswith(ENVIRONMENT_PREFIX):
        return None
    text = variable.removeprefix(ENVIRONMENT_PREFIX)
    for key in (*LISTENER_KEYS, *NODE_KEYS):
        if text == _capitals(key):
            return key
    for key in sorted(_SUFFIXES, key=len, reverse=True):
        match = re.fullmatch(rf"LISTENER_NAME_([A-Za-z0-9_]+)_{_capitals(key)}", text)
        if match:
            return f"listener.name.{match[1].lower()}.{key}"
    return None


def _capitals(key: str) -> str:
    return re.sub(r"[.-]", "_", key).upper()
