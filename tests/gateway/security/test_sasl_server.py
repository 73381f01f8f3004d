"""The server's side of PLAIN and SCRAM, against our clients, RFC 7677's example, and clients that
do not keep to it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.sasl_client import PlainClient
from gateway.security.sasl_server import InvalidCredentials, PlainServer, SaslFailed
from gateway.security.scram import HASHES, ScramClient
from gateway.security.scram_decoys import Form, ScramDecoys
from gateway.security.scram_server import ScramCredential, ScramServer, ScramToken, scram_credential
from gateway.security.secret import Secret

DECOYS = ScramDecoys(Secret("shared"), "")
OTHER_ID = "Client requested an authorization id that is different from username"


def credential(
    mechanism: str, password: str, iterations: int = 4096, salt: bytes = b"salt"
) -> ScramCredential:
    return scram_credential(mechanism, Secret(password), salt, iterations)


def decoys(mechanism: str, form: Form = Form()) -> Callable[[str, bool], ScramCredential]:  # noqa: B008
    """As a listener makes them: of tokens and users."""
    return lambda name, token: (
        DECOYS.token(mechanism, name) if token else DECOYS.user(mechanism, name, form)
    )


def server(
    known: dict[str, ScramCredential], mechanism: str = "SCRAM-SHA-256", nonce: str = "server"
) -> ScramServer:
    return ScramServer(mechanism, known.get, nonce, decoys(mechanism))


def log_in(tested: ScramServer, user: str, password: str) -> ScramClient:
    client = ScramClient(tested.mechanism, user, Secret(password), "client")
    final = client.respond(tested.evaluate(client.first()))
    assert final is not None
    client.respond(tested.evaluate(final))
    return client


def test_plain_server_accepts_the_right_password() -> None:
    tested = PlainServer({"é日": Secret("pä ss")})
    assert tested.evaluate(PlainClient("é日", Secret("pä ss")).first()) == b""
    assert tested.complete and tested.username == "é日"
    named = PlainServer({"bob": Secret("x")})
    assert named.evaluate(b"bob\0bob\0x") == b"" and named.username == "bob"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\0bob\0wrong", "Invalid username or password"),
        (b"\0alice\0right", "Invalid username or password"),
        (b"alice\0bob\0right", OTHER_ID),
        (b"\0\0right", "invalid credentials with SASL mechanism PLAIN"),
        (b"\0bob\0", "invalid credentials"),
        (b"bob\0right", "invalid credentials"),
        (b"\0bob\0right\0", "invalid credentials"),
        (b"", "invalid credentials"),
        (b"\0b\xffob\0right", "Invalid username or password"),
    ],
)
def test_plain_refused(message: bytes, why: str) -> None:
    tested = PlainServer({"bob": Secret("right")})
    with pytest.raises(SaslFailed, match=why):
        tested.evaluate(message)
    assert not tested.complete


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", ["bob", "a,b=c", "é日"])
def test_scram_both_sides_prove_that_they_know_the_password(mechanism: str, user: str) -> None:
    tested = server({user: credential(mechanism, "pä,=ss", 5000)}, mechanism)
    client = log_in(tested, user, "pä,=ss")
    assert client.complete and tested.complete and tested.username == user


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    tested = server(
        {"user": credential("SCRAM-SHA-256", "pencil", 4096, salt)},
        nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    first = tested.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert (
        first
        == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = tested.evaluate(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," + proof)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" and tested.complete


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=bob",
        b"n,,n=,r=client",
        b"n,,n=b=ob,r=client",
        b"n,,m=must,n=bob,r=client",
        b"y,,n=bob,r=client",
        b"p=tls-unique,,n=bob,r=client",
        b"n,,n=bob,r=cli ent",
        b"\xff\xfe",
    ],
)
def test_a_first_message_that_is_none(first: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        server({"bob": credential("SCRAM-SHA-256", "x")}).evaluate(first)


def test_authorization_id_of_another_user_is_refused() -> None:
    known = {"bob": credential("SCRAM-SHA-256", "x")}
    assert server(known).evaluate(b"n,a=bob,n=bob,r=client").startswith(b"r=client")
    with pytest.raises(SaslFailed, match=OTHER_ID):
        server(known).evaluate(b"n,a=alice,n=bob,r=client")


def test_a_delegation_token_is_its_owners() -> None:
    keys = {"bob": credential("SCRAM-SHA-256", "right")}
    token = ScramToken("alice", credential("SCRAM-SHA-256", "of the token"), 1234)

    def tested() -> ScramServer:
        return ScramServer(
            "SCRAM-SHA-256", keys.get, "server", decoys("SCRAM-SHA-256"), {"id": token}.get
        )

    def use(server: ScramServer, name: str, password: str) -> None:
        client = ScramClient("SCRAM-SHA-256", name, Secret(password), "client", is_token=True)
        final = client.respond(server.evaluate(client.first()))
        assert final is not None
        server.evaluate(final)

    right = tested()
    use(right, "id", "of the token")
    assert (
        right.complete
        and right.username == "alice"
        and right.token is not None
        and right.token.remaining_ms == 1234
    )
    for name, password in (("id", "wrong"), ("bob", "right"), ("nothing", "of the token")):
        with pytest.raises(InvalidCredentials):
            use(tested(), name, password)
    with pytest.raises(InvalidCredentials):
        log_in(tested(), "id", "of the token")


def test_credential_with_too_few_iterations_fails_as_an_unknown_user_does() -> None:
    weak = {"bob": credential("SCRAM-SHA-256", "x", 4095)}
    said = server(weak).evaluate(b"n,,n=bob,r=client")
    assert said == server({}).evaluate(b"n,,n=bob,r=client")
    with pytest.raises(InvalidCredentials):
        log_in(server(weak), "bob", "x")


def test_first_message_does_not_reveal_which_users_exist() -> None:
    known = {"bob": credential("SCRAM-SHA-256", "right")}
    said = []
    for user in ("bob", "nobody"):
        first = server(known).evaluate(f"n,,n={user},r=client".encode()).decode()
        assert (
            first == server(known).evaluate(f"n,,n={user},r=client".encode()).decode()
        )  # always the same salt
        with pytest.raises(InvalidCredentials) as failure:
            log_in(server(known), user, "wrong")
        said.append(str(failure.value))
    assert said[0] == said[1]


def test_a_proof_for_another_nonce_or_binding_or_of_another_size_is_none() -> None:
    def final(change: tuple[bytes, bytes]) -> ScramServer:
        tested, client = (
            server({"bob": credential("SCRAM-SHA-256", "x")}),
            ScramClient("SCRAM-SHA-256", "bob", Secret("x"), "c"),
        )
        answer = client.respond(tested.evaluate(client.first()))
        assert answer is not None and change[0] in answer
        with pytest.raises(InvalidCredentials):
            tested.evaluate(answer.replace(*change))
        return tested

    for change in (
        (b"r=cserver", b"r=cServer"),
        (b"c=biws", b"c=eSws"),
        (b",p=", b",p=AAAA"),
        (b",p=", b",x=1,p="),
        (b"p=", b"q="),
    ):
        assert not final(change).complete


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_any_bytes_are_answered_or_refused(first: bytes, final: bytes) -> None:
    for tested in (
        PlainServer({"bob": Secret("x")}),
        server({"bob": credential("SCRAM-SHA-256", "x")}),
    ):
        try:
            for message in (b"n,,n=bob,r=c" if isinstance(tested, ScramServer) else first, final):
                if not tested.complete:
                    tested.evaluate(message)
        except SaslFailed:
            pass
        assert not tested.complete
