"""Key stores and trust stores as they are found: PEM, PKCS12, what keytool writes, and what is none
of these.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gateway.security.key_stores import StoreError, key_pair, pem_key_pair, trusted_certificates
from gateway.security.secret import Secret
from tools.kafka_security import STORE_PASSWORD, Authority, Identity, certificates_pem

AUTHORITY = Authority()
OTHER = Authority("Another CA")
OWN = AUTHORITY.issue("own")
PASSWORD = Secret(STORE_PASSWORD)
WRONG = Secret("wrong")

needs_keytool = pytest.mark.skipif(
    shutil.which("keytool") is None, reason="keytool (of any Java) is not on the PATH"
)


def names(pem: str) -> list[str]:
    return [one.subject.rfc4514_string() for one in x509.load_pem_x509_certificates(pem.encode())]


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    "remark", ["", "Bag Attributes\n  friendlyName: x\n", "# no certificate: -----BEGIN\n"]
)
def test_a_trust_store_in_pem(remark: str) -> None:
    text = remark + AUTHORITY.pem + remark + OTHER.pem + AUTHORITY.pem
    assert names(trusted_certificates(text.encode(), "PEM", None)) == [
        "CN=Test CA",
        "CN=Another CA",
    ]


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_store_is_read_under_either_type(kind: str) -> None:
    assert names(trusted_certificates(AUTHORITY.java_truststore(), kind, PASSWORD)) == [
        "CN=Test CA"
    ]
    pair = key_pair(OWN.pkcs12(), kind, PASSWORD, None)
    assert names(pair.chain) == ["CN=own", "CN=Test CA"]
    key: Any = load_pem_private_key(pair.key.reveal().encode(), None)
    assert key.private_numbers() == OWN.key.private_numbers()


def test_a_key_store_in_pem() -> None:
    for text, password in (
        (OWN.pem(), None),
        (OWN.pem(), Secret("not needed")),
        (OWN.pem("hush"), Secret("hush")),
    ):
        pair = key_pair(text.encode(), "PEM", None, password)
        assert names(pair.chain) == ["CN=own", "CN=Test CA"]
        assert pair.key.reveal().startswith("-----BEGIN PRIVATE KEY-----")
        assert "PRIVATE" not in repr(pair)


def test_the_traditional_form_of_a_key() -> None:
    key = rsa.generate_private_key(65537, 2048)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    assert text.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    with pytest.raises(StoreError, match="belongs to its private key"):
        pem_key_pair(text, OWN.chain_pem().encode(), None)


def test_own_certificate_comes_first_in_the_chain() -> None:
    [own, issuer] = OWN.chain
    text = certificates_pem([OTHER.certificate, issuer, own])
    assert names(pem_key_pair(OWN.key_pem().encode(), text.encode(), None).chain) == [
        "CN=own",
        "CN=Test CA",
    ]
    alone = pem_key_pair(OWN.key_pem().encode(), certificates_pem([own]).encode(), None)
    assert names(alone.chain) == ["CN=own"]


JKS = b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\0"
BROKEN = AUTHORITY.pem.replace("MII", "AAA", 1).encode()

REFUSED_TRUST = [
    (b"", "PEM", None, "no PEM text"),
    (b"", "PKCS12", None, "no PKCS12 store"),
    (b"junk", "JKS", PASSWORD, "or it is no PKCS12 store"),
    (AUTHORITY.java_truststore(), "PKCS12", WRONG, "its password does not open it"),
    (AUTHORITY.java_truststore(), "PEM", None, "looks like a PKCS12 store"),
    (AUTHORITY.java_truststore()[:-10], "PKCS12", PASSWORD, "no PKCS12 store"),
    (AUTHORITY.pem.encode(), "JKS", PASSWORD, "set its type to PEM"),
    (OWN.key_pem().encode(), "PEM", None, "no certificate"),
    (BROKEN, "PEM", None, "cannot be read"),
    (JKS, "JKS", PASSWORD, "keytool -importkeystore"),
    (JKS, "PEM", None, "looks like a JKS file"),
    (b"\xce\xce\xce\xce" + JKS, "PKCS12", PASSWORD, "old format JCEKS"),
]


@pytest.mark.parametrize(
    ("data", "kind", "password", "words"), REFUSED_TRUST, ids=range(len(REFUSED_TRUST))
)
def test_no_trust_store(data: bytes, kind: str, password: Secret | None, words: str) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        trusted_certificates(data, kind, password)
    assert STORE_PASSWORD not in str(caught.value)


def test_no_key_store() -> None:
    def say(
        identity: bytes,
        kind: str,
        password: Secret | None = None,
        key_password: Secret | None = None,
    ) -> str:
        with pytest.raises(StoreError) as caught:
            key_pair(identity, kind, password, key_password)
        return str(caught.value)

    assert "is it a trust store?" in say(AUTHORITY.java_truststore(), "PKCS12", PASSWORD)
    assert "no private key" in say(OWN.chain_pem().encode(), "PEM")
    assert "no certificate" in say(OWN.key_pem().encode(), "PEM")
    assert "ssl.key.password is needed" in say(OWN.pem("hush").encode(), "PEM")
    assert "ssl.key.password does not open" in say(OWN.pem("hush").encode(), "PEM", None, WRONG)
    assert "malformed" in say(OWN.pem().replace("MI", "AA", 1).encode(), "PEM")
    assert "belongs to its private key" in say(
        (AUTHORITY.issue("x").key_pem() + OWN.chain_pem()).encode(), "PEM"
    )


def _import(store: Path, *options: str) -> None:
    pkcs12 = store.with_suffix(".source")
    pkcs12.write_bytes(OWN.pkcs12())
    source = [
        "-srckeystore",
        str(pkcs12),
        "-srcstoretype",
        "PKCS12",
        "-srcstorepass",
        STORE_PASSWORD,
    ]
    keytool(
        "-importkeystore",
        *source,
        "-destkeystore",
        str(store),
        "-deststorepass",
        STORE_PASSWORD,
        *options,
    )


@needs_keytool
def test_stores_that_keytool_writes_by_default_are_read(tmp_path: Path) -> None:
    """Since Java 9 that is PKCS12, also under a name that ends in .jks."""
    certificate, trust, own = tmp_path / "ca.pem", tmp_path / "trust.jks", tmp_path / "own.jks"
    for number, authority in enumerate((AUTHORITY, OTHER)):
        certificate.write_text(authority.pem)
        store = ["-keystore", str(trust), "-storepass", STORE_PASSWORD, "-noprompt"]
        keytool("-importcert", "-alias", f"ca{number}", "-file", str(certificate), *store)
    assert sorted(names(trusted_certificates(trust.read_bytes(), "JKS", PASSWORD))) == [
        "CN=Another CA",
        "CN=Test CA",
    ]
    _import(own)
    assert names(key_pair(own.read_bytes(), "JKS", PASSWORD, PASSWORD).chain) == [
        "CN=own",
        "CN=Test CA",
    ]


@needs_keytool
def test_javas_old_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jks", tmp_path / "new.p12"
    _import(old, "-deststoretype", "JKS")
    with pytest.raises(StoreError) as caught:
        key_pair(old.read_bytes(), "JKS", PASSWORD, None)
    command = (
        str(caught.value)
        .partition("convert it with: ")[2]
        .replace("OLD", str(old))
        .replace("NEW.p12", str(new))
        .split()
    )
    keytool(*command[1:], "-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD)
    assert names(key_pair(new.read_bytes(), "JKS", PASSWORD, None).chain) == [
        "CN=own",
        "CN=Test CA",
    ]


def test_identities_of_the_tests_have_their_principals() -> None:
    assert isinstance(OWN, Identity) and OWN.principal == "User:CN=own"
