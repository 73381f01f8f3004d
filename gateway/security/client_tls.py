"""Reads the ``ssl.*`` keys of a Kafka client and its stores: trusted certificates, own key pair.

It makes no connection. Source: ``DefaultSslEngineFactory``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from gateway.base.java.text import split_list
from gateway.base.sizes import MIB
from gateway.security.key_stores import (
    TYPES,
    KeyPair,
    StoreError,
    key_pair,
    pem_key_pair,
    trusted_certificates,
)
from gateway.security.secret import Secret

_T = TypeVar("_T")
ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
#: The values of ``ssl.enabled.protocols``, oldest first. Older protocols are broken.
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
#: Maximum size of a store, bytes.
_STORE_MAX: Final = 16 * MIB


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings of a TLS connection. ``trusted``: PEM certificates, None for the system's;
    ``own``: for mTLS.

    ``check_host_name``: the node's certificate must name the host, or address, of the connection.
    ``protocols``: those of :data:`PROTOCOLS` that may be used.
    """

    trusted: str | None = field(default=None, repr=False)
    own: KeyPair | None = None
    check_host_name: bool = True
    protocols: tuple[str, ...] = PROTOCOLS


def read_tls(values: Mapping[str, str], problems: list[str]) -> TlsSettings:
    """Return the settings that the ``ssl.*`` keys in ``values`` give. Blocks on files.

    Faults are added to ``problems``, each naming its key.
    """
    trusted: str | None = None
    own: KeyPair | None = None
    try:
        trusted = _trusted(values)
    except StoreError as error:
        problems.append(str(error))
    try:
        own = _own(values)
    except StoreError as error:
        problems.append(str(error))
    return TlsSettings(
        trusted, own, _check_host_name(values, problems), _protocols(values, problems)
    )


def _trusted(values: Mapping[str, str]) -> str | None:
    """Return the certificates of the trust store; None without one, for the system's. Raises
    StoreError.
    """
    store, location = "ssl.truststore", values.get("ssl.truststore.location")
    kind, password = _kind(values, store), _secret(values, f"{store}.password")
    inline = values.get(f"{store}.certificates")
    if inline:
        _refuse(
            location, f"{store}.location: {store}.certificates is given too, one of them is enough"
        )
        _refuse(
            kind != "PEM",
            f"{store}.certificates: is PEM, but {store}.type is {kind}: set it to PEM",
        )
    _refuse(
        password and not (location or inline), f"{store}.password: given, but no {store}.location"
    )
    _refuse(password and kind == "PEM", f"{store}.password: a trust store of type PEM has none")
    if inline:
        return _named(
            f"{store}.certificates", lambda: trusted_certificates(inline.encode(), kind, None)
        )
    if not location:
        return None
    data = _read(f"{store}.location", location)
    return _named(
        f"{store}.location: {location}", lambda: trusted_certificates(data, kind, password)
    )


def _own(values: Mapping[str, str]) -> KeyPair | None:
    """Return the own key pair; None without one: the connection is then anonymous for TLS. Raises
    StoreError.
    """
    store, location = "ssl.keystore", values.get("ssl.keystore.location")
    kind, password = _kind(values, store), _secret(values, f"{store}.password")
    key_password = _secret(values, "ssl.key.password")
    key, chain = values.get(f"{store}.key"), values.get(f"{store}.certificate.chain")
    if key or chain:
        _refuse(not key, f"{store}.certificate.chain: given, but no {store}.key")
        _refuse(not chain, f"{store}.key: given, but no {store}.certificate.chain")
        _refuse(location, f"{store}.location: {store}.key is given too, one of them is enough")
        _refuse(kind != "PEM", f"{store}.key: is PEM, but {store}.type is {kind}: set it to PEM")
    _refuse(password and not (location or key), f"{store}.password: given, but no {store}.location")
    _refuse(
        password and kind == "PEM",
        f"{store}.password: a key store of type PEM has none, only ssl.key.password",
    )
    _refuse(
        location and not password and kind != "PEM",
        f"{store}.password: missing, {store}.location needs it",
    )
    if key and chain:
        return _named(
            f"{store}.key", lambda: pem_key_pair(key.encode(), chain.encode(), key_password)
        )
    if not location:
        return None
    data = _read(f"{store}.location", location)
    return _named(
        f"{store}.location: {location}", lambda: key_pair(data, kind, password, key_password)
    )


def _check_host_name(values: Mapping[str, str], problems: list[str]) -> bool:
    algorithm = values.get(ENDPOINT_IDENTIFICATION, "https").lower()
    if algorithm not in ("https", ""):
        problems.append(
            f"{ENDPOINT_IDENTIFICATION}: {algorithm!r} is neither https nor empty "
            "(which checks no name)"
        )
    return algorithm != ""


def _protocols(values: Mapping[str, str], problems: list[str]) -> tuple[str, ...]:
    protocol = values.get("ssl.protocol", "TLSv1.3")
    # In Java it selects an implementation, which speaks every version. The next key selects them.
    if protocol not in ("TLS", *PROTOCOLS):
        problems.append(f"ssl.protocol: {protocol!r} is none of TLS, {', '.join(PROTOCOLS)}")
    # No protocol at all is as wrong as an unknown one.
    named = split_list(values.get("ssl.enabled.protocols", ",".join(PROTOCOLS))) or [""]
    unknown = [one for one in named if one not in PROTOCOLS]
    if unknown:
        problems.append(
            f"ssl.enabled.protocols: {unknown[0]!r} is none of {', '.join(PROTOCOLS)}; "
            "older ones are not safe"
        )
    return tuple(one for one in PROTOCOLS if one in named)


def _kind(values: Mapping[str, str], store: str) -> str:
    kind = values.get(f"{store}.type", "JKS")
    _refuse(kind.upper() not in TYPES, f"{store}.type: {kind!r} is none of {', '.join(TYPES)}")
    return kind.upper()


def _secret(values: Mapping[str, str], key: str) -> Secret | None:
    return Secret(values[key]) if values.get(key) else None


def _read(key: str, location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(_STORE_MAX + 1)
    except OSError as error:
        raise StoreError(f"{key}: {location} cannot be read: {error.strerror or error}") from None
    _refuse(
        len(data) > _STORE_MAX,
        f"{key}: {location} is larger than {_STORE_MAX} bytes: it is no store",
    )
    return data


def _named(name: str, work: Callable[[], _T]) -> _T:
    try:
        return work()
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from None


def _refuse(wrong: object, sentence: str) -> None:
    if wrong:
        raise StoreError(sentence)
