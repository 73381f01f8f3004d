"""Reads the security of a client's connection from the properties file of ``--command-config``.

The keys mean what they mean to Kafka's tools, so that one file serves both. A missing key, and a
key whose loss would weaken the connection, is refused; keys that do not concern security are
ignored. It reads the stores, but opens no connection.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.base.java.text import trim
from gateway.config.config import SECURITY_PROTOCOLS
from gateway.config.values import read_properties_text
from gateway.security.client_tls import TlsSettings, read_tls
from gateway.security.jaas import JaasError, parse_jaas
from gateway.security.sasl_client import MECHANISMS, PLAIN, SaslSettings
from gateway.security.secret import Secret

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
#: The keys read here and in ``client_tls``.
_READ: Final = frozenset(
    {
        PROTOCOL,
        MECHANISM,
        JAAS,
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
    }
    | {
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
    }
    | {
        f"ssl.{store}.{what}"
        for store in ("keystore", "truststore")
        for what in ("location", "type", "password")
    }
)
#: Keys that name parts of Java, and do not change how a connection is protected.
_JAVA_ONLY: Final = frozenset(
    {
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
    }
)
#: Keys that change trust in ways that kwire does not support.
_REFUSED: Final = frozenset(
    {"security.providers", "ssl.cipher.suites", "ssl.engine.factory.class", "config.providers"}
    | {
        "sasl.client.callback.handler.class",
        "sasl.login.class",
        "sasl.login.callback.handler.class",
    }
)
#: Keys of unsupported mechanisms, and of servers.
_OTHERS: Final = (
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "sasl.server.",
    "sasl.enabled.",
    "ssl.allow.",
    "ssl.client.",
)
_PREFIXES: Final = ("ssl.", "sasl.", "security.")
#: The login module's class of each mechanism.
LOGIN_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": frozenset({PLAIN}),
    "org.apache.kafka.common.security.scram.ScramLoginModule": frozenset(MECHANISMS) - {PLAIN},
}


class ClientPropertiesError(ValueError):
    """The file cannot be used. ``problems``: one sentence each, naming file and key; never a value
    that may be secret.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of a client's connection, PLAINTEXT by default. The text form names protocol and
    user, never a secret.

    ``warnings``: settings that protect less than they seem to, one sentence each.
    """

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            self.protocol
            if self.sasl is None
            else f"{self.protocol}, {self.sasl.mechanism} as {self.sasl.username!r}"
        )


def load_client_properties(path: Path) -> ClientSecurity:
    """Return the settings in the properties file ``path``, with its stores read. Blocks on files.

    Raises ClientPropertiesError with every fault.
    """
    import javaproperties

    try:
        # Java reads properties as ISO-8859-1; another letter is written \uXXXX.
        content = read_properties_text(path, "iso-8859-1")
        pairs = [
            (one.key, one.value)
            for one in javaproperties.parse(content)
            if isinstance(one, javaproperties.KeyValue)
        ]
    except OSError as error:
        raise ClientPropertiesError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError:  # its text is not used: it quotes the file, which holds secrets
        raise ClientPropertiesError(
            f"{path}: a \\u in it is not followed by four hexadecimal digits"
        ) from None
    problems: list[str] = []
    values: dict[str, str] = {}
    for key, value in pairs:
        if key in values:
            problems.append(f"{key}: given twice")
        values[key] = trim(value)  # as Kafka's ConfigDef does
    security = None if problems else _security(values, problems)
    if problems or security is None:
        raise ClientPropertiesError(*(f"{path}: {problem}" for problem in problems))
    return security


def client_security(values: Mapping[str, str]) -> ClientSecurity:
    """Return the settings that these keys give, with their stores read. Blocks on files. Raises
    ClientPropertiesError.
    """
    problems: list[str] = []
    security = _security(values, problems)
    if problems or security is None:
        raise ClientPropertiesError(*problems)
    return security


def _security(values: Mapping[str, str], problems: list[str]) -> ClientSecurity | None:
    problems.extend(problem for key in values if (problem := _key_problem(key)))
    problems.extend(
        f"{key}: holds half of a surrogate pair"
        for key, value in values.items()
        if not _is_text(value)
    )
    protocol = values.get(PROTOCOL, "").upper() or _missing_protocol(values, problems)
    if protocol not in SECURITY_PROTOCOLS:
        problems.append(f"{PROTOCOL}: {protocol!r} is none of {', '.join(SECURITY_PROTOCOLS)}")
    if problems:
        return None
    tls = read_tls(values, problems) if protocol.endswith("SSL") else None
    sasl = _sasl(values, problems) if protocol.startswith("SASL") else None
    return ClientSecurity(protocol, tls, sasl, _warnings(tls, sasl))


def _key_problem(key: str) -> str | None:
    if key in _REFUSED:
        return (
            f"{key}: is not supported, and to go on without it could protect less "
            "than was asked for"
        )
    if key in _READ or key in _JAVA_ONLY or key.startswith(_OTHERS):
        return None
    near = difflib.get_close_matches(
        key.lower(), _READ, n=1, cutoff=0.6 if key.startswith(_PREFIXES) else 0.86
    )
    if near:
        return f"{key}: unknown key; did you mean {near[0]}?"
    return f"{key}: unknown key" if key.startswith(_PREFIXES) else None


def _missing_protocol(values: Mapping[str, str], problems: list[str]) -> str:
    """Return Kafka's default, PLAINTEXT, but refuse it if other keys ask for TLS or SASL: it would
    silently drop them.
    """
    said = sorted(key for key in values if key.startswith(("ssl.", "sasl.")))
    if said:
        problems.append(
            f"{PROTOCOL}: missing, although {said[0]} is given: "
            f"set it to one of {', '.join(SECURITY_PROTOCOLS)}"
        )
    return "PLAINTEXT"


def _sasl(values: Mapping[str, str], problems: list[str]) -> SaslSettings | None:
    mechanism = values.get(MECHANISM, "")
    if mechanism not in MECHANISMS:
        said = (
            f"{mechanism!r} is not supported"
            if mechanism
            else "missing (Kafka's default is GSSAPI, which is not supported)"
        )
        problems.append(f"{MECHANISM}: {said}: set it to one of {', '.join(MECHANISMS)}")
        return None
    if not values.get(JAAS):
        problems.append(f"{JAAS}: missing: it holds user name and password")
        return None
    try:
        return _login(values[JAAS], mechanism)
    except JaasError as error:
        problems.append(f"{JAAS}: {error}")
        return None


def _login(text: str, mechanism: str) -> SaslSettings:
    module = parse_jaas(text)
    # Some distributions of Kafka's clients put their own name before the class's.
    known = next(
        (name for name in LOGIN_MODULES if module.name == name or module.name.endswith(f".{name}")),
        None,
    )
    expected = next(name for name, mechanisms in LOGIN_MODULES.items() if mechanism in mechanisms)
    if known != expected:
        raise JaasError(f"the login module of {mechanism} is {expected}")
    is_token = module.options.get("tokenauth", Secret("false")).reveal().lower() == "true"
    if is_token and mechanism == PLAIN:
        raise JaasError("tokenauth: a delegation token needs a SCRAM mechanism")
    for option in ("username", "password"):
        if not module.options.get(option):
            raise JaasError(f"the option {option} is missing or empty")
        if "\0" in module.options[option].reveal():
            raise JaasError(f"the option {option} holds a NUL character")
    username, password = module.options["username"].reveal(), module.options["password"]
    return SaslSettings(mechanism, username, password, is_token)


def _warnings(tls: TlsSettings | None, sasl: SaslSettings | None) -> tuple[str, ...]:
    warnings = []
    if tls is not None and not tls.check_host_name:
        warnings.append(
            "ssl.endpoint.identification.algorithm is empty: "
            "any holder of a trusted certificate can pose as any node"
        )
    if sasl is not None and sasl.mechanism == PLAIN and tls is None:
        warnings.append(
            f"{PROTOCOL}=SASL_PLAINTEXT with PLAIN: the password goes over the network readable; "
            "SASL_SSL protects it"
        )
    return tuple(warnings)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
