"""Principals between nodes: Kafka's bytes, both ways, and what is no principal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.principal import Principal, decode_principal, encode_principal
from kwire.errors import DecodeError

#: As a broker of Kafka 4.3.1 put it into an envelope.
ANONYMOUS = bytes.fromhex("000005557365720a414e4f4e594d4f55530000")

_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_kafkas_bytes() -> None:
    assert decode_principal(ANONYMOUS) == Principal("User:ANONYMOUS")
    assert encode_principal(Principal("User:ANONYMOUS")) == ANONYMOUS


@given(_NAMES.map(lambda kind: kind.replace(":", "")), _NAMES, st.booleans())
def test_there_and_back(kind: str, name: str, by_token: bool) -> None:
    principal = Principal(f"{kind}:{name}", by_token)
    assert decode_principal(encode_principal(principal)) == principal


def test_bytes_behind_it_are_ignored() -> None:
    assert decode_principal(ANONYMOUS + b"more") == Principal("User:ANONYMOUS")


@pytest.mark.parametrize(
    "data",
    [
        *(None, b"", b"\0", b"\0\0", b"junk", ANONYMOUS[:-3]),
        *(b"\x7f\xff" + ANONYMOUS[2:], b"\xff\xff" + ANONYMOUS[2:]),
        *(
            ANONYMOUS[:2] + b"\x03U:" + ANONYMOUS[7:],
            ANONYMOUS[:2] + b"\xff\xff\xff\xff\x07" + bytes(1_000_000),
        ),
    ],
)
def test_malformed_principal_raises_decode_error(data: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_principal(data)


@given(st.binary(max_size=60))
def test_any_bytes_raise_decode_error_or_decode_to_a_principal_that_encodes_to_itself(
    data: bytes,
) -> None:
    try:
        principal = decode_principal(b"\0\0" + data)
    except DecodeError:
        return
    assert decode_principal(encode_principal(principal)) == principal


def test_a_name_without_a_type() -> None:
    with pytest.raises(ValueError, match="TYPE:NAME"):
        encode_principal(Principal("alice"))
