"""Encodes and decodes principals as they are in Envelope requests. Knows no request.

The form is that of ``DefaultKafkaPrincipalBuilder`` (KIP-590): two bytes of version, then
``DefaultPrincipalData``. The form of any other ``principal.builder.class`` is refused.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kwire.errors import DecodeError
from kwire.messages.default_principal_data import DefaultPrincipalData

_VERSION: Final = struct.Struct(">h")
#: Maximum unknown tagged fields.
_TAGS_MAX: Final = 10


class Principal(NamedTuple):
    """``name`` as Kafka writes it, ``User:alice``; ``token_authenticated``: by a delegation token
    (KIP-48).
    """

    name: str
    token_authenticated: bool = False


def encode_principal(principal: Principal) -> bytes:
    """Return the bytes of ``principal``. Raises ValueError for a name without a type."""
    kind, colon, name = principal.name.partition(":")
    if not colon:
        raise ValueError(f"a principal is written TYPE:NAME, not {principal.name!r}")
    version = DefaultPrincipalData.VERSIONS[-1]
    data = DefaultPrincipalData(
        type=kind, name=name, token_authenticated=principal.token_authenticated
    )
    return _VERSION.pack(version) + data.encode(version)


def decode_principal(data: bytes | memoryview | None) -> Principal:
    """Return the principal in ``data``; bytes behind it are ignored, as in Kafka. Raises
    DecodeError.

    A type with a colon is refused: ``User:admin`` + ``x`` would read as the user ``admin:x``.
    """
    if data is None or len(data) < _VERSION.size:
        raise DecodeError(
            "no principal, not even its version", path="Principal", offset=0, rule="truncated"
        )
    (version,) = _VERSION.unpack_from(data)
    if version not in DefaultPrincipalData.VERSIONS:
        raise DecodeError(
            f"a principal of version {version} is not known",
            path="Principal",
            offset=0,
            rule="unknown-version",
        )
    found, _ = DefaultPrincipalData.decode_from(
        bytes(data), version, _VERSION.size, budget=_TAGS_MAX
    )
    if ":" in found.type:
        raise DecodeError(
            "a principal's type has no colon",
            path="Principal.Type",
            offset=_VERSION.size,
            rule="bad-principal",
        )
    return Principal(f"{found.type}:{found.name}", found.token_authenticated)
