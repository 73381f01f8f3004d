"""Translates Kafka's TLS and SASL client properties into kafka-python's options. It opens no file
and no connection. An option that kafka-python would obey only in part is refused; no error text
holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_JAAS: Final = re.compile(
    r"\s*([\w.]+)\s+(?:required|requisite|sufficient|optional)\s+(.*?)\s*;\s*", re.DOTALL
)
_JAAS_OPTION: Final = re.compile(r'\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";=]+))')
_MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": "PLAIN",
    "org.apache.kafka.common.security.scram.ScramLoginModule": "SCRAM",
}
#: Kafka's option -> what it is to kafka-python. Other names are the same, but for dots and
#: underscores.
_TRANSLATED: Final[Mapping[str, Callable[[str], dict[str, str]]]] = {
    "ssl.truststore.location": lambda value: {"ssl_cafile": _pem(value, "ssl.truststore.location")},
    "ssl.keystore.location": lambda value: dict.fromkeys(
        ("ssl_certfile", "ssl_keyfile"), _pem(value, "ssl.keystore.location")
    ),
    "ssl.truststore.type": lambda value: _pem_type(value, "ssl.truststore.type"),
    "ssl.keystore.type": lambda value: _pem_type(value, "ssl.keystore.type"),
    "ssl.key.password": lambda value: {"ssl_password": value},
    "ssl.endpoint.identification.algorithm": lambda value: {
        "ssl_check_hostname": _check_hostname(value)
    },
    "sasl.jaas.config": lambda value: _login(value),
}
NAMES: Final = tuple(f"kafka.{name}" for name in _TRANSLATED)


def translated(given: Mapping[str, str]) -> dict[str, str]:
    """``given`` (names in lower case) with kafka-python's options in place of those of ``NAMES``.
    Raises ValueError.
    """
    options = {name: value for name, value in given.items() if name not in NAMES}
    plain = {
        name.removeprefix("kafka.").replace(".", "_")
        for name in options
        if name.startswith("kafka.")
    }
    for name in given.keys() & set(NAMES):
        for option, value in _TRANSLATED[name.removeprefix("kafka.")](given[name]).items():
            if option in plain:
                raise ValueError(f"{name} and kafka.{option} say the same thing: give one of them")
            options[f"kafka.{option}"] = value
    if "kafka.sasl.jaas.config" in given:
        _check_mechanism(given)
    return options


def _pem(path: str, name: str) -> str:
    if path.lower().endswith((".jks", ".p12", ".pfx", ".pkcs12")):
        raise ValueError(
            f"{name}: only PEM files can be read; openssl pkcs12 -in STORE -out FILE.pem makes one"
            " of a PKCS12 store"
        )
    return path


def _pem_type(value: str, name: str) -> dict[str, str]:
    if value.upper() != "PEM":
        raise ValueError(f"{name} is PEM, not {value!r}: no other stores can be read")
    return {}


def _check_hostname(value: str) -> str:
    if value.lower() not in ("https", ""):
        raise ValueError(
            f"ssl.endpoint.identification.algorithm is https, or empty for none, not {value!r}"
        )
    return str(bool(value)).lower()


def _login(value: str) -> dict[str, str]:
    """Name and password of a JAAS entry, of which a client has one."""
    _, options = _jaas(value)
    if not {"username", "password"} <= options.keys():
        raise ValueError("kafka.sasl.jaas.config has no username, or no password")
    return {"sasl_plain_username": options["username"], "sasl_plain_password": options["password"]}


def _jaas(value: str) -> tuple[str, dict[str, str]]:
    entry = _JAAS.fullmatch(value)
    if entry is None or entry[1] not in _MODULES:
        raise ValueError(
            'kafka.sasl.jaas.config is MODULE required username="..." password="..."; with'
            f" {' or '.join(_MODULES)}"
        )
    options, at, text = {}, 0, entry[2]
    while at < len(text):
        option = _JAAS_OPTION.match(text, at)
        if option is None:
            raise ValueError(
                "kafka.sasl.jaas.config: the options of the login module are not NAME=VALUE, or a"
                " quote is missing"
            )
        options[option[1]] = (
            re.sub(r"\\(.)", r"\1", option[2]) if option[2] is not None else option[3]
        )
        at = option.end()
    return _MODULES[entry[1]], options


def _check_mechanism(given: Mapping[str, str]) -> None:
    mechanism = given.get("kafka.sasl.mechanism", given.get("kafka.sasl_mechanism", ""))
    module, _ = _jaas(given["kafka.sasl.jaas.config"])
    if not mechanism.upper().startswith(module):
        raise ValueError(
            f"kafka.sasl.jaas.config is for {module}, and kafka.sasl.mechanism is"
            f" {mechanism or 'not given'}"
        )
