"""The order of an authentication, and what ends it: a connection's state machine, with PLAIN and a
clock of the tests' own.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.sasl_server import PlainServer, SaslFailed, TokenUse
from gateway.security.sasl_session import Mechanism, SaslSession, WrongMoment
from gateway.security.secret import Secret

HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA = 17, 18, 36, 3
USERS = {"bob": Secret("x"), "alice": Secret("x")}


def session(max_reauth_ms: int = 0) -> SaslSession:
    plain = Mechanism(lambda: PlainServer(USERS), max_reauth_ms)
    return SaslSession({"PLAIN": plain, "PLAIN-TOO": plain})


def open_session(max_reauth_ms: int = 0) -> SaslSession:
    tested = session(max_reauth_ms)
    assert tested.handshake("PLAIN", 1, 0.0)
    assert tested.evaluate(b"\0bob\0x", 0.0) == (b"", max_reauth_ms)
    return tested


def allowed(tested: SaslSession, now: float = 0.0) -> set[int]:
    return {
        key
        for key in (HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA)
        if tested.refusal(key, now) is None
    }


def test_the_order_of_an_authentication() -> None:
    tested = session()
    assert allowed(tested) == {HANDSHAKE, VERSIONS} and tested.principal is None
    tested.versions_told()
    assert allowed(tested) == {HANDSHAKE}
    assert tested.handshake("PLAIN", 1, 0.0) and not tested.takes_bare_tokens
    assert allowed(tested) == {AUTHENTICATE} and not tested.is_open
    assert tested.evaluate(b"\0bob\0x", 0.0) == (b"", 0)
    assert tested.is_open and tested.principal == "User:bob"
    assert allowed(tested, 1e9) == {HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA}


def test_a_failure_is_the_end() -> None:
    tested = session()
    tested.handshake("PLAIN", 1, 0.0)
    with pytest.raises(SaslFailed):
        tested.evaluate(b"\0bob\0y", 0.0)
    assert tested.has_failed and allowed(tested) == set() and tested.principal is None
    other = session()
    assert not other.handshake("GSSAPI", 1, 0.0)
    assert (
        other.has_failed and allowed(other) == set() and other.mechanisms == ["PLAIN", "PLAIN-TOO"]
    )


def test_tokens_without_headers_after_the_first_version_of_the_handshake() -> None:
    tested = session()
    tested.handshake("PLAIN", 0, 0.0)
    assert tested.takes_bare_tokens
    tested.evaluate(b"\0bob\0x", 0.0)
    assert not tested.takes_bare_tokens and tested.is_open


def test_endless_session_refuses_another_authentication() -> None:
    tested = open_session()
    with pytest.raises(WrongMoment):
        tested.handshake("PLAIN", 1, 100.0)
    with pytest.raises(WrongMoment):
        tested.evaluate(b"\0alice\0x", 100.0)
    assert tested.is_open and tested.principal == "User:bob"


def test_a_session_ends_and_is_renewed() -> None:
    tested = open_session(10_000)
    assert allowed(tested, 9.9) == {HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA}
    assert allowed(tested, 10.0) == {HANDSHAKE}
    with pytest.raises(WrongMoment):
        tested.handshake("PLAIN", 1, 0.5)  # too soon
    assert tested.handshake("PLAIN", 1, 11.0)
    assert allowed(tested, 11.0) == {AUTHENTICATE}
    assert tested.evaluate(b"\0bob\0x", 11.0) == (b"", 10_000)
    assert METADATA in allowed(tested, 20.9) and METADATA not in allowed(tested, 21.0)


@pytest.mark.parametrize(
    ("mechanism", "user", "why"),
    [("PLAIN", "alice", "principals"), ("PLAIN-TOO", "bob", "mechanism")],
)
def test_a_session_is_renewed_as_the_same_user_by_the_same_mechanism(
    mechanism: str, user: str, why: str
) -> None:
    tested = open_session(10_000)
    assert tested.handshake(mechanism, 1, 5.0)
    with pytest.raises(SaslFailed, match=why):
        tested.evaluate(f"\0{user}\0x".encode(), 5.0)
    assert tested.has_failed and tested.principal == "User:bob"


class TokenServer(PlainServer):
    """PLAIN, as if by a delegation token that is valid for four seconds more."""

    def __init__(self) -> None:
        super().__init__(USERS)
        self.token = TokenUse(4000)


@pytest.mark.parametrize(("max_reauth_ms", "lifetime_ms"), [(0, 4000), (3000, 3000), (5000, 4000)])
def test_a_session_by_a_token_does_not_outlive_it(max_reauth_ms: int, lifetime_ms: int) -> None:
    tested = SaslSession({"PLAIN": Mechanism(TokenServer, max_reauth_ms)})
    tested.handshake("PLAIN", 1, 0.0)
    assert tested.evaluate(b"\0bob\0x", 0.0) == (b"", lifetime_ms)
    assert tested.token_authenticated and not open_session().token_authenticated
    assert allowed(tested, lifetime_ms / 1000) == {HANDSHAKE}


_steps = st.one_of(
    st.tuples(st.just("handshake"), st.sampled_from(["PLAIN", "GSSAPI"]), st.integers(0, 1)),
    st.tuples(
        st.just("token"),
        st.sampled_from([b"\0bob\0x", b"\0bob\0y", b"bob\0alice\0x", b"\0alice\0x", b""]),
        st.just(0),
    ),
    st.tuples(st.just("versions"), st.just(""), st.just(0)),
)


@given(st.lists(_steps, max_size=8), st.sampled_from([0, 1500]))
def test_session_opens_only_for_a_valid_token_and_keeps_its_user(
    steps: list[tuple[str, str | bytes, int]], ms: int
) -> None:
    tested, proved = session(ms), set()
    for number, (kind, value, version) in enumerate(steps):
        now = float(2 * number)
        try:
            if (
                kind == "handshake"
                and isinstance(value, str)
                and tested.refusal(HANDSHAKE, now) is None
            ):
                tested.handshake(value, version, now)
            elif (
                kind == "token"
                and isinstance(value, bytes)
                and tested.refusal(AUTHENTICATE, now) is None
            ):
                tested.evaluate(value, now)
                proved.add(value)
            elif kind == "versions" and tested.refusal(VERSIONS, now) is None:
                tested.versions_told()
        except (SaslFailed, WrongMoment):
            pass
        if tested.refusal(METADATA, now) is None:
            assert tested.principal in {
                "User:bob" if b"bob" in token else "User:alice" for token in proved
            }
    assert len(proved) <= 1
