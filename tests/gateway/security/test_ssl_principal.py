"""Subjects of certificates by the names that ``X500Principal.getName`` of OpenJDK 17 gives them."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID as Oid

from gateway.security.ssl_principal import der_of, distinguished_name
from tools.kafka_security import Authority


def certificate(*parts: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    """Of a subject with these relative distinguished names, the most general first."""
    subject = x509.Name(
        x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in part]) for part in parts
    )
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
    )
    builder = (
        builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(1))
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (
            [
                [(Oid.COUNTRY_NAME, "DE")],
                [(Oid.STATE_OR_PROVINCE_NAME, "BY")],
                [(Oid.LOCALITY_NAME, "Munich")],
                [(Oid.ORGANIZATION_NAME, "Ex, Inc.")],
                [(Oid.ORGANIZATIONAL_UNIT_NAME, "a+b")],
                [(Oid.COMMON_NAME, "client")],
            ],
            r"CN=client,OU=a\+b,O=Ex\, Inc.,L=Munich,ST=BY,C=DE",
        ),
        (
            [
                [(Oid.DOMAIN_COMPONENT, "org")],
                [(Oid.USER_ID, "u1")],
                [(Oid.STREET_ADDRESS, "Main St")],
            ],
            "STREET=Main St,UID=u1,DC=org",
        ),
        (
            [[(Oid.COMMON_NAME, "x")], [(Oid.EMAIL_ADDRESS, "a@b.example")]],
            "1.2.840.113549.1.9.1=#160b6140622e6578616d706c65,CN=x",
        ),
        ([[(Oid.SERIAL_NUMBER, "123")], [(Oid.COMMON_NAME, "n")]], "CN=n,2.5.4.5=#1303313233"),
        ([[(Oid.TITLE, "t" * 130)]], "2.5.4.12=#0c8182" + "74" * 130),
        ([[(Oid.COMMON_NAME, 'q"\\;<>=#z')]], r"CN=q\"\\\;\<\>\=\#z"),
        ([[(Oid.COMMON_NAME, "  lead and trail  ")]], r"CN=\ \ lead and trail\ \ "),
        ([[(Oid.COMMON_NAME, "#hash")]], r"CN=\#hash"),
        ([[(Oid.COMMON_NAME, " ")]], "CN=\\ "),
        ([[(Oid.COMMON_NAME, "Zoë 日")]], "CN=Zoë 日"),
        ([[(Oid.COMMON_NAME, "one"), (Oid.ORGANIZATION_NAME, "two")]], "CN=one+O=two"),
    ],
)
def test_names_are_written_as_in_java(
    parts: list[list[tuple[x509.ObjectIdentifier, str]]], name: str
) -> None:
    assert distinguished_name(certificate(*parts)) == name


def test_the_first_certificate_of_a_chain() -> None:
    assert distinguished_name(der_of(Authority().issue("node").chain_pem())) == "CN=node"


def test_what_is_no_certificate() -> None:
    with pytest.raises(ValueError, match="asn1"):
        distinguished_name(b"\x30\x03abc")
