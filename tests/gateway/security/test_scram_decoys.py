"""Decoys of SCRAM credentials: the same at every node, of the form that real credentials have, and
matched by no password.
"""

from __future__ import annotations

import re

import pytest

from gateway.security.scram import HASHES
from gateway.security.scram_decoys import Form, ScramDecoys, form_of
from gateway.security.secret import Secret
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord

CLUSTER = "8-uQ2wXRQq2uSyVV1VSGcA"
KAFKA_SALT = b"1k2j3h4g5f6d7s8a9q0w1e2r3"


def record(iterations: int, salt: bytes) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name="u", mechanism=1, salt=salt, stored_key=b"k", server_key=b"s", iterations=iterations
    )


@pytest.mark.parametrize("mechanism", HASHES)
def test_decoys_of_two_nodes_are_equal_and_those_of_names_differ(mechanism: str) -> None:
    for secret in (Secret("shared"), None):
        here, there = ScramDecoys(secret, CLUSTER), ScramDecoys(secret, CLUSTER)
        assert here.user(mechanism, "eve", Form()) == there.user(mechanism, "eve", Form())
        assert here.token(mechanism, "eve") == there.token(mechanism, "eve")
        salts = {here.user(mechanism, name, Form()).salt for name in ("eve", "bob")} | {
            here.token(mechanism, "eve").salt
        }
        assert len(salts) == 3


def test_token_secret_decides_in_place_of_the_cluster_id() -> None:
    def salt(secret: str | None, cluster_id: str) -> bytes:
        made = ScramDecoys(None if secret is None else Secret(secret), cluster_id)
        return made.user("SCRAM-SHA-256", "eve", Form()).salt

    assert salt("a", "x") == salt("a", "y") != salt("b", "x")
    assert salt(None, "x") != salt(None, "y")


def test_salt_of_a_decoy_has_the_given_form() -> None:
    made = ScramDecoys(None, CLUSTER)
    for number in range(200):
        kafkas = made.user("SCRAM-SHA-256", f"user{number}", Form(8192))
        assert re.fullmatch(rb"[0-9a-z]{22,26}", kafkas.salt) and kafkas.iterations == 8192
    random = made.user("SCRAM-SHA-512", "eve", Form(4096, 64))
    assert len(random.salt) == 64 and len(random.stored_key) == 64


def test_form_is_that_of_most_credentials() -> None:
    assert form_of([]) == Form(4096, 0)
    common = [record(8192, KAFKA_SALT)] * 3
    assert form_of([record(4096, KAFKA_SALT)] * 2 + common + [record(16384, b"\0" * 64)]) == Form(
        8192, 0
    )
    assert form_of([record(4096, bytes(range(64)))]) == Form(4096, 64)
    assert form_of([record(1, KAFKA_SALT)] * 9) == Form(4096, 0), (
        "credentials that nobody can log in with do not count"
    )
    assert form_of([record(4096, KAFKA_SALT), record(8192, KAFKA_SALT)]) == form_of(
        [record(8192, KAFKA_SALT), record(4096, KAFKA_SALT)]
    )
