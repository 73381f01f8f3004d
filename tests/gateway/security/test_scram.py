"""SCRAM against the examples of its RFCs, and against messages that no honest server sends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security import scram
from gateway.security.sasl_client import PlainClient, SaslSettings, sasl_client
from gateway.security.scram import SaslError, ScramClient
from gateway.security.secret import Secret

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client(
    mechanism: str = "SCRAM-SHA-256",
    nonce: str = NONCE,
    user: str = "user",
    password: str = "pencil",
) -> ScramClient:
    return ScramClient(mechanism, user, Secret(password), nonce)


def test_the_example_of_rfc_7677() -> None:
    us = client()
    assert us.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert (
        us.respond(SERVER_FIRST) == b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not us.complete
    assert us.respond(SERVER_FINAL) is None
    assert us.complete


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example uses SCRAM-SHA-1, which neither Kafka nor the gateway offers."""
    monkeypatch.setitem(scram.HASHES, "SCRAM-SHA-1", "sha1")
    us = client("SCRAM-SHA-1", "fyko+d2lbbFgONRv9qkxdawL")
    assert us.first() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    assert (
        us.respond(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096")
        == b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    assert us.respond(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None


def test_names_are_escaped_and_passwords_are_as_they_are() -> None:
    assert (
        client(user="a=b,c=2C ü").first() == "n,,n=a=3Db=2Cc=3D2C ü,r=rOprNGfwEbeRWgbNEkqO".encode()
    )
    # SASLprep would make an "fi" of the ligature; Kafka takes the bytes.
    us = client(password="ﬁsh")
    final = us.respond(SERVER_FIRST)
    assert final is not None
    salted = hashlib.pbkdf2_hmac(
        "sha256", "ﬁsh".encode(), base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096
    )
    key = hmac.digest(salted, b"Client Key", "sha256")
    message = b",".join((us.first()[3:], SERVER_FIRST, final.partition(b",p=")[0]))
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    assert (
        bytes(
            a ^ b
            for a, b in zip(base64.b64decode(final.partition(b",p=")[2]), signature, strict=True)
        )
        == key
    )


def first(
    nonce: str = NONCE + "x", salt: str = "c2FsdA==", iterations: str = "4096", more: str = ""
) -> bytes:
    return f"r={nonce},s={salt},i={iterations}{more}".encode()


BAD_FIRST = {
    b"": "malformed",
    b"e=other-error": "malformed",
    b"\xff": "no UTF-8",
    b"m=ext," + first(): "extension that is not supported",
    first(NONCE): "does not continue the client",
    first(NONCE[:-1] + "zzz"): "does not continue the client",
    first("x" + NONCE): "does not continue the client",
    first(NONCE + " x"): "malformed",
    first(salt=""): "malformed",
    first(salt="c2FsdA"): "malformed base64",
    first(salt="c2Fs dA=="): "malformed",
    first(salt="QUJD" * 400): "salt has 1200 bytes",
    first(iterations="4095"): "4095 SCRAM iterations",
    first(iterations="16385"): "16385 SCRAM iterations",
    first(iterations="0"): "malformed",
    first(iterations="-4096"): "malformed",
    first(iterations="04096"): "malformed",
    first(iterations="4096 "): "malformed",
    first(iterations="٤٠٩٦"): "malformed",
    first(iterations="9" * 10): "9999999999 SCRAM iterations",
    first(iterations="9" * 5000): "malformed",
    first(more=" "): "malformed",
    first().replace(b"r=", b"R="): "malformed",
    b"s=c2FsdA==,r=" + NONCE.encode() + b"x,i=4096": "malformed",
}


@pytest.mark.parametrize("message", BAD_FIRST)
def test_a_first_message_that_is_refused_before_any_work(
    message: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "gateway.security.scram.hashlib.pbkdf2_hmac", lambda *_: pytest.fail("a key was derived")
    )
    with pytest.raises(SaslError, match=BAD_FIRST[message]):
        client().respond(message)


def test_the_bounds_of_the_iterations_are_inside() -> None:
    for iterations in (scram.ITERATIONS_MIN, scram.ITERATIONS_MAX):
        answer = client().respond(first(iterations=str(iterations), more=",unknown=1"))
        assert re.fullmatch(rb"c=biws,r=[^,]+,p=[A-Za-z0-9+/]+=*", answer or b""), answer


BAD_FINAL = {
    b"": "malformed",
    b"v=": "malformed",
    b"v=AAAA": "not who it should be",
    b"v=" + base64.b64encode(bytes(32)): "not who it should be",
    b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=": "not who it should be",
    b"e=invalid-proof": "the server says invalid-proof",
    b"e=\n": "malformed",
    b"e=" + b"a" * 1000: "malformed",
    SERVER_FIRST: "malformed",
    b" " + SERVER_FINAL: "malformed",
}


@pytest.mark.parametrize("message", BAD_FINAL)
def test_a_final_message_that_proves_nothing(message: bytes) -> None:
    us = client()
    us.respond(SERVER_FIRST)
    with pytest.raises(SaslError, match=BAD_FINAL[message]):
        us.respond(message)
    assert not us.complete


def test_the_signature_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    compare = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return compare(a, b)

    monkeypatch.setattr("gateway.security.scram.hmac.compare_digest", watched)
    us = client()
    us.respond(SERVER_FIRST)
    us.respond(SERVER_FINAL)
    assert len(compared) == 1


def test_nothing_comes_after_the_end() -> None:
    us = client()
    us.respond(SERVER_FIRST)
    us.respond(SERVER_FINAL)
    with pytest.raises(SaslError):
        us.respond(SERVER_FINAL)


@pytest.mark.parametrize("nonce", ["", "a,b", "a b", "ä", "a\n"])
def test_a_nonce_that_would_break_the_message(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        client(nonce=nonce)


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_refused_with_the_one_error(message: bytes, prefixed: bool) -> None:
    with pytest.raises(SaslError):
        client().respond(b"r=" + NONCE.encode() + message if prefixed else message)


def test_plain_client_sends_its_password_and_refuses_a_challenge() -> None:
    us = sasl_client(SaslSettings("PLAIN", "ann", Secret("pässword")), "unused")
    assert isinstance(us, PlainClient)
    assert us.first() == b"\0ann\0" + "pässword".encode()
    us.respond(b"")
    assert us.complete
    with pytest.raises(SaslError):
        sasl_client(SaslSettings("PLAIN", "ann", Secret("x")), "unused").respond(b"challenge")


def test_no_text_form_shows_a_password() -> None:
    settings = SaslSettings("SCRAM-SHA-512", "ann", Secret("hush"))
    assert (
        "hush" not in f"{settings!r} {settings} {settings.password} {settings.password!r}"
        f" {sasl_client(settings, 'n')!r}"
    )
