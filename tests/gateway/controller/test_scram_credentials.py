"""AlterUserScramCredentials: stored keys are those of RFC 5802; and the refusals."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from gateway.security.scram import ScramClient
from gateway.security.secret import Secret
from kwire.protocol import ErrorCode
from tests.gateway.controller.cluster import Cluster, made

SHA_256, SHA_512 = 1, 2
NAMES = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}


def upsert(name: str, mechanism: int = SHA_256, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": 4096,
        "salt": b"salt",
        "salted_password": b"p" * 32,
        **more,
    }


def alter(cluster: Cluster, *, drop: Any = (), put: Any = (), **more: Any) -> dict[str, int]:
    deletions = [{"name": name, "mechanism": mechanism} for name, mechanism in drop]
    request = made("AlterUserScramCredentialsRequest", deletions=deletions, upsertions=list(put))
    results = cluster.ask(request, **more).results
    assert len({one.user for one in results}) == len(results), "one result a user"
    return {one.user: one.error_code for one in results}


@pytest.mark.parametrize("mechanism", NAMES)
def test_client_with_the_password_authenticates_with_the_stored_keys(mechanism: int) -> None:
    cluster = Cluster()
    hash_name = NAMES[mechanism].removeprefix("SCRAM-").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(hash_name, b"wonderland", b"some salt", 4096)
    assert alter(
        cluster, put=[upsert("ann", mechanism, salt=b"some salt", salted_password=salted)]
    ) == {"ann": 0}
    kept = cluster.image.scram[mechanism, "ann"]
    client = ScramClient(NAMES[mechanism], "ann", Secret("wonderland"), "nonce")
    first = client.first().decode().removeprefix("n,,")
    challenge = "r=nonceMore,s=c29tZSBzYWx0,i=4096"
    final = client.respond(challenge.encode())
    assert final is not None
    without_proof, _, proof = final.decode().rpartition(",p=")
    assert _proves(hash_name, kept, f"{first},{challenge},{without_proof}".encode(), proof)


def _proves(hash_name: str, kept: Any, auth_message: bytes, proof: str) -> bool:
    """Whether a server accepts the client's proof (RFC 5802, 3)."""

    signature = hmac.digest(kept.stored_key, auth_message, hash_name)
    client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    return hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), kept.stored_key)


def test_credentials_are_created_changed_and_deleted() -> None:
    cluster = Cluster()
    assert alter(cluster, put=[upsert("ann"), upsert("ben", SHA_512)]) == {"ann": 0, "ben": 0}
    assert alter(cluster, put=[upsert("ann", SHA_512)]) == {"ann": 0}
    assert alter(cluster, put=[upsert("ann", iterations=5000)], drop=[("ben", SHA_512)]) == {
        "ann": 0,
        "ben": 0,
    }
    assert {key: one.iterations for key, one in cluster.image.scram.items()} == {
        (SHA_256, "ann"): 5000,
        (SHA_512, "ann"): 4096,
    }


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (upsert(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("ann", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("ann", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsert("ann", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("ann", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsert("ann", salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_invalid_credential_is_refused(change: dict[str, Any], error: ErrorCode) -> None:
    cluster = Cluster()
    assert alter(cluster, put=[change, upsert("ben")]) == {change["name"]: error, "ben": 0}
    assert list(cluster.image.scram) == [(SHA_256, "ben")]


@pytest.mark.parametrize(
    ("user", "mechanism", "error"),
    [
        ("ann", SHA_512, ErrorCode.RESOURCE_NOT_FOUND),
        ("nobody", SHA_256, ErrorCode.RESOURCE_NOT_FOUND),
        ("", SHA_256, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ("ann", 9, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_deletion_of_an_unknown_credential_is_refused(
    user: str, mechanism: int, error: ErrorCode
) -> None:
    cluster = Cluster()
    alter(cluster, put=[upsert("ann")])
    assert alter(cluster, drop=[(user, mechanism)]) == {user: error}
    assert list(cluster.image.scram) == [(SHA_256, "ann")]


@pytest.mark.parametrize(
    ("drop", "put"),
    [
        ([], [upsert("ann"), upsert("ann", SHA_512)]),
        ([], [upsert("ann"), upsert("ann", SHA_512), upsert("ann")]),
        ([("ann", SHA_256)], [upsert("ann", SHA_512)]),
        ([("ann", SHA_256), ("ann", SHA_512)], []),
    ],
)
def test_second_change_of_a_user_is_refused(
    drop: list[tuple[str, int]], put: list[dict[str, Any]]
) -> None:
    cluster = Cluster()
    alter(cluster, put=[upsert("ann")])
    before = len(cluster.log)
    assert alter(cluster, drop=drop, put=put) == {"ann": ErrorCode.DUPLICATE_RESOURCE}
    assert len(cluster.log) == before


def test_first_error_of_a_user_stands() -> None:
    assert alter(Cluster(), drop=[("ann", SHA_256)], put=[upsert("ann")]) == {
        "ann": ErrorCode.RESOURCE_NOT_FOUND
    }


def test_old_metadata_version_has_no_credentials() -> None:
    assert alter(Cluster(level=10), put=[upsert("ann")]) == {"ann": ErrorCode.UNSUPPORTED_VERSION}
    assert alter(Cluster(level=11), put=[upsert("ann")]) == {"ann": ErrorCode.NONE}


def test_credentials_need_alter_on_the_cluster() -> None:
    forbidden = [("ALTER", "CLUSTER", "kafka-cluster")]
    got = alter(
        Cluster(), put=[upsert("ann"), upsert("ann")], drop=[("ben", 1)], forbidden=forbidden
    )
    assert got == {
        "ben": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "ann": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
