"""Reads key stores and trust stores, PEM and PKCS12, into one form: PEM text.

It opens no file and no connection. keytool writes PKCS12 under the type JKS unless told otherwise,
so the first bytes of a store decide its format, as in Java. Java's own old formats are refused with
the command that converts them: the cryptography package does not read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.security.secret import Secret

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

#: The values of ``ssl.keystore.type`` and ``ssl.truststore.type``.
TYPES: Final = ("JKS", "PKCS12", "PEM")
_OLD_FORMATS: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_PEM: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_KEY_KINDS: Final = (
    b"PRIVATE KEY",
    b"ENCRYPTED PRIVATE KEY",
    b"RSA PRIVATE KEY",
    b"EC PRIVATE KEY",
)
_CERTIFICATE_KINDS: Final = (b"CERTIFICATE", b"X509 CERTIFICATE")


class StoreError(ValueError):
    """A store cannot be used. The text fits behind the store's name and has no secrets."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key (PEM, PKCS8, not encrypted) and its certificates (PEM, the key's own first,
    then its issuers).
    """

    key: Secret
    chain: str = field(repr=False)


def trusted_certificates(data: bytes, kind: str, password: Secret | None) -> str:
    """Return the certificates in a trust store of type ``kind``, as PEM. Raises StoreError, also if
    there are none.
    """
    if kind == "PEM":
        certificates = _pem_certificates(data)
    else:
        store = _pkcs12(data, password)
        own = [store.cert] if store.cert is not None else []
        certificates = [one.certificate for one in (*own, *store.additional_certs)]
    if not certificates:
        raise StoreError("it holds no certificate")
    return _pem_text(certificates)


def key_pair(
    data: bytes, kind: str, password: Secret | None, key_password: Secret | None
) -> KeyPair:
    """Return the private key in a key store of type ``kind``, with its certificates. Raises
    StoreError, also if there is none.
    """
    if kind == "PEM":
        return pem_key_pair(data, data, key_password)
    store = _pkcs12(data, password)
    if store.key is None:
        raise StoreError("it holds no private key: is it a trust store?")
    if store.cert is None:
        raise StoreError("it holds no certificate of its private key")
    return _pair(
        store.key, [store.cert.certificate, *(one.certificate for one in store.additional_certs)]
    )


def pem_key_pair(key: bytes, chain: bytes, key_password: Secret | None) -> KeyPair:
    """As :func:`key_pair`, from PEM texts of the key and of the certificates. Raises StoreError."""
    certificates = _pem_certificates(chain)
    if not certificates:
        raise StoreError("it holds no certificate")
    return _pair(_pem_key(key, key_password), certificates)


def _pem_certificates(data: bytes) -> list[Certificate]:
    from cryptography import x509

    _expect_pem(data)
    blocks = [match[0] for match in _PEM.finditer(data) if match[1] in _CERTIFICATE_KINDS]
    try:
        return [x509.load_pem_x509_certificate(block) for block in blocks]
    except ValueError:
        raise StoreError("a certificate in it cannot be read") from None


def _pem_key(data: bytes, password: Secret | None) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    _expect_pem(data)
    block = next((match[0] for match in _PEM.finditer(data) if match[1] in _KEY_KINDS), None)
    if block is None:
        raise StoreError("it holds no private key")
    encrypted = b"ENCRYPTED" in block[:400]
    try:
        return load_pem_private_key(block, _bytes(password) if encrypted else None)
    except TypeError:
        raise StoreError("its private key is encrypted: ssl.key.password is needed") from None
    except ValueError:
        raise StoreError(
            "ssl.key.password does not open its private key"
            if encrypted
            else "its private key is malformed"
        ) from None
    except UnsupportedAlgorithm:
        raise StoreError(
            "its private key has an algorithm, or an encryption, that is not supported"
        ) from None


def _expect_pem(data: bytes) -> None:
    if b"-----BEGIN " not in data:
        found = (
            "a PKCS12 store"
            if data[:1] == b"\x30"
            else f"a {_OLD_FORMATS.get(data[:4], 'binary')} file"
        )
        raise StoreError(f"it is no PEM text but looks like {found}: set its type accordingly")


def _pkcs12(data: bytes, password: Secret | None) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    if old := _OLD_FORMATS.get(data[:4]):
        raise StoreError(
            f"it is in Java's old format {old}, which is not supported; convert it with: keytool"
            " -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"
        )
    if b"-----BEGIN " in data[:4096]:
        raise StoreError("it is PEM text: set its type to PEM")
    try:
        return load_pkcs12(data, _bytes(password))
    except ValueError:
        why = (
            "its password does not open it, or it is no PKCS12 store"
            if password
            else "it is no PKCS12 store without a password"
        )
        raise StoreError(why) from None
    except UnsupportedAlgorithm:
        raise StoreError(
            "its encryption is no longer supported; convert it with: keytool -importkeystore"
            " -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"
        ) from None


def _pair(key: Any, certificates: Sequence[Certificate]) -> KeyPair:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    own = next((one for one in certificates if _public_bytes(one) == public), None)
    if own is None:
        raise StoreError("none of its certificates belongs to its private key")
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
    return KeyPair(Secret(text), _pem_text(_issuers(own, certificates)))


def _public_bytes(certificate: Certificate) -> bytes | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        return certificate.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )
    except (ValueError, UnsupportedAlgorithm):
        # A key of another certificate in the store, which need not be supported.
        return None


def _issuers(own: Certificate, certificates: Sequence[Certificate]) -> list[Certificate]:
    """Return ``own``, its issuer, that one's issuer and so on, as far as the store has them. A
    store may hold other certificates too, in any order.
    """
    chain, left = [own], [one for one in certificates if one != own]
    while issuer := next((one for one in left if one.subject == chain[-1].issuer), None):
        chain.append(issuer)
        left.remove(issuer)
    return chain


def _pem_text(certificates: Iterable[Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(
        dict.fromkeys(one.public_bytes(Encoding.PEM).decode("ascii") for one in certificates)
    )


def _bytes(password: Secret | None) -> bytes | None:
    return password.reveal().encode() if password else None
