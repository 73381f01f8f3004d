"""Formats the subject of a certificate as Java does: RFC 2253 as ``X500Principal.getName`` writes
it.

It does not verify the certificate: TLS has done that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cryptography.x509 import NameAttribute

#: The principal of an unauthenticated connection (``KafkaPrincipal.ANONYMOUS``).
ANONYMOUS: Final = "User:ANONYMOUS"
#: The attributes with a short name in RFC 2253; any other is written as its object id and its DER
#: value in hexadecimal.
_SHORT: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of ``certificate`` (DER), most specific part first. Raises ValueError for
    an invalid certificate.
    """
    from cryptography.x509 import load_der_x509_certificate

    subject = load_der_x509_certificate(certificate).subject
    return ",".join(
        "+".join(_part(attribute) for attribute in one) for one in reversed(subject.rdns)
    )


def der_of(chain: str) -> bytes:
    """Return the first certificate of a checked PEM text, as DER."""
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificate

    return load_pem_x509_certificate(chain.encode()).public_bytes(Encoding.DER)


def _part(attribute: NameAttribute[Any]) -> str:
    short = _SHORT.get(attribute.oid.dotted_string)
    if short is None or not isinstance(attribute.value, str):
        return f"{attribute.oid.dotted_string}=#{_der(attribute).hex()}"
    return f"{short}={_escaped(attribute.value)}"


def _escaped(value: str) -> str:
    text = "".join(f"\\{c}" if c in _ESCAPED else "\\00" if c == "\0" else c for c in value)
    stripped = text.strip(" ")
    leading, trailing = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return "\\ " * leading + stripped + "\\ " * trailing if stripped else "\\ " * len(text)


def _der(attribute: NameAttribute[Any]) -> bytes:
    """Return tag, length and value, as they are in the certificate."""
    value = attribute.value if isinstance(attribute.value, bytes) else _encoded(attribute)
    size = len(value)
    length = (
        bytes([size])
        if size < 128
        else bytes([0x80 | (size.bit_length() + 7) // 8])
        + size.to_bytes((size.bit_length() + 7) // 8, "big")
    )
    return bytes([attribute._type.value]) + length + value


def _encoded(attribute: NameAttribute[Any]) -> bytes:
    encodings = {"BMPString": "utf-16-be", "UniversalString": "utf-32-be"}
    return str(attribute.value).encode(encodings.get(attribute._type.name, "utf-8"))
