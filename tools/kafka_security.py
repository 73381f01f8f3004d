"""Makes certificates and properties for Kafka with TLS, SASL and an authorizer, for nodes and
clients.

Certificates are made with ``cryptography``; keytool is not needed. All passwords are for tests, and
are in this file.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
#: A user without any permission under an authorizer.
OUTSIDER, OUTSIDER_PASSWORD = "outsider", "outsider-secret"
STORE_PASSWORD = "store-secret"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_HOSTS = ("localhost", "127.0.0.1")
_DAY = datetime.timedelta(days=1)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Identity:
    """A private key with its certificates, own first."""

    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...]

    @property
    def principal(self) -> str:
        """The principal that Kafka gives to a client with this certificate."""
        return f"User:{self.chain[0].subject.rfc4514_string()}"

    def key_pem(self, password: str | None = None) -> str:
        """The key in PKCS8, encrypted under ``password`` if there is one."""
        how: Any = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()

    def chain_pem(self) -> str:
        """Return the certificates as PEM."""
        return certificates_pem(self.chain)

    def pem(self, password: str | None = None) -> str:
        """Key and certificates in one text, as a key store of type PEM holds them."""
        return self.key_pem(password) + self.chain_pem()

    def pkcs12(self, password: str = STORE_PASSWORD) -> bytes:
        """Key and certificates as a key store of type PKCS12."""
        sealed = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"own", self.key, self.chain[0], self.chain[1:], sealed
        )


class Authority:
    """A certificate authority: peers that trust its certificate trust those that it issues.

    With ``identified`` certificates have the extensions that RFC 5280 requires and openssl.cnf
    adds: key usage, subject and authority key identifiers. Without it they have no extensions, as
    many self-made certificates; Java accepts both.
    """

    def __init__(self, name: str = "Test CA", *, identified: bool = False) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._identified = identified
        now = datetime.datetime.now(datetime.UTC)
        builder = _builder(self._name, self._name, self._key, now - _DAY, now + 30 * _DAY)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        if identified:
            builder = builder.add_extension(_SIGNS_CERTIFICATES, critical=True)
        self.certificate = self._with_identifiers(builder, self._key).sign(
            self._key, hashes.SHA256()
        )

    @property
    def pem(self) -> str:
        """Its certificate, as a trust store of type PEM holds it."""
        return certificates_pem([self.certificate])

    def java_truststore(self, password: str = STORE_PASSWORD) -> bytes:
        """Its certificate in a PKCS12 trust store as keytool writes them."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password.encode()))

    def issue(
        self,
        name: str,
        *,
        hosts: Sequence[str] = _HOSTS,
        not_before: datetime.datetime | None = None,
        not_after: datetime.datetime | None = None,
    ) -> Identity:
        """A key with a certificate for CN=``name``, valid for ``hosts``, for a day unless times are
        given.
        """
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        builder = _builder(
            _name(name), self._name, key, not_before or now - _DAY, not_after or now + _DAY
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
            )
        return Identity(
            key,
            (
                self._with_identifiers(builder, key).sign(self._key, hashes.SHA256()),
                self.certificate,
            ),
        )

    def _with_identifiers(
        self, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        if not self._identified:
            return builder
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(issuer, critical=False)


@dataclass(frozen=True)
class Secured:
    """The arguments of ``tools.kafka.kafka`` for secured controllers."""

    controller_protocol: str
    properties: Mapping[str, str]
    client_properties: Mapping[str, str]
    format_arguments: Sequence[str]

    def options(self) -> dict[str, Any]:
        """The keyword arguments of ``kafka``."""
        return dict(vars(self))


def secured(
    directory: Path,
    protocol: str,
    *,
    mechanism: str = "PLAIN",
    mutual: bool = False,
    authorize: bool = True,
) -> Secured:
    """Return controllers that use ``protocol``, and a client of them that may do everything; the
    stores are written to ``directory``.

    With SASL the client uses ``mechanism``; the controllers among themselves use PLAIN, because
    SCRAM credentials are in the log, which the controllers cannot read before they have a leader.
    ``mutual``: clients need a certificate, and its subject is their principal. ``authorize``: with
    Kafka's StandardAuthorizer, for which ADMIN and the certificates made here are super users.
    """
    authority = Authority()
    node, client = authority.issue("node"), authority.issue("client")
    server: dict[str, str] = {}
    user: dict[str, str] = {"security.protocol": protocol}
    # Anonymous clients: on the broker's listener, which is not secured here, and through TLS alone.
    super_users = [f"User:{ADMIN}", node.principal, client.principal, "User:ANONYMOUS"]
    if protocol.endswith("SSL"):
        server |= key_store_properties(directory / "node.pem", node) | trust_store_properties(
            directory / "ca.pem", authority
        )
        server["ssl.client.auth"] = "required" if mutual else "none"
        user |= trust_store_properties(directory / "ca.pem", authority)
        if mutual:
            user |= key_store_properties(directory / "client.pem", client)
    if protocol.startswith("SASL"):
        server |= sasl_server_properties("controller") | {
            "sasl.mechanism.controller.protocol": "PLAIN"
        }
        user |= sasl_client_properties(mechanism, ADMIN, ADMIN_PASSWORD)
    if authorize:
        server |= {"authorizer.class.name": _AUTHORIZER, "super.users": ";".join(super_users)}
    return Secured(protocol, server, user, scram_arguments() if protocol.startswith("SASL") else ())


def key_store_properties(file: Path, identity: Identity) -> dict[str, str]:
    """Write ``identity`` to ``file``, and the properties that name it."""
    file.write_text(identity.pem())
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}


def trust_store_properties(file: Path, authority: Authority) -> dict[str, str]:
    """Write the certificate of ``authority`` to ``file``, and the properties that name it."""
    file.write_text(authority.pem)
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)}


def sasl_server_properties(listener: str) -> dict[str, str]:
    """PLAIN and SCRAM on the listener of that name (lower case), with ADMIN and OUTSIDER as users;
    the node itself is ADMIN.
    """
    users = {ADMIN: ADMIN_PASSWORD, OUTSIDER: OUTSIDER_PASSWORD}
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    itself = f'username="{ADMIN}" password="{ADMIN_PASSWORD}"'
    prefix = f"listener.name.{listener}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {itself} {known};",
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
    }


def sasl_client_properties(mechanism: str, username: str, password: str) -> dict[str, str]:
    """Return the properties of a client: its mechanism and its login."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else _SCRAM_MODULE
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{username}" password="{password}";',
    }


def scram_arguments() -> list[str]:
    """Arguments of the storage tool's ``format`` that give ADMIN and OUTSIDER SCRAM credentials
    from the first record on.
    """
    return [
        argument
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for name, password in ((ADMIN, ADMIN_PASSWORD), (OUTSIDER, OUTSIDER_PASSWORD))
        for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
    ]


def properties_text(values: Mapping[str, str]) -> str:
    """Return the text of a properties file, with escapes."""
    text: str = javaproperties.dumps(dict(values), timestamp=None)
    return text


def certificates_pem(certificates: Sequence[x509.Certificate]) -> str:
    """Return all certificates as PEM."""
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    not_before: datetime.datetime,
    not_after: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
    )
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )
