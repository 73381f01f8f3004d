"""Delegation tokens: owners, lifetimes, lookup by HMAC, and removal after expiry."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from gateway.base.slices import run
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.controller.token_index import TokenIndex
from gateway.security.delegation_tokens import token_hmac
from gateway.security.secret import Secret
from kwire.protocol import ErrorCode
from tests.gateway.controller.cluster import Cluster, allowing, made, replayed, same
from tests.work import work

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
ANN, BEN = "User:ann", "User:ben"


def cluster_with_tokens(**more: Any) -> Cluster:
    cluster = Cluster(token_secret=Secret("key"), **more)
    cluster.now_ms = 10**12
    return cluster


def ask(cluster: Cluster, principal: str, name: str, forbidden: Any = (), **fields: Any) -> Any:
    request = made(name, **fields)
    decision = cluster.controller.handle(
        request, type(request).VERSIONS[-1], allowing(forbidden), cluster.now_ms, principal
    )
    if decision.operation is not None:
        cluster.commit(decision.operation)
    cluster.check()
    return decision.answer


def create(
    cluster: Cluster,
    principal: str = ANN,
    *renewers: str,
    owner: str = "",
    lifetime_ms: int = -1,
    **more: Any,
) -> Any:
    kind, _, name = owner.partition(":")
    people = [renewer.partition(":") for renewer in renewers]
    return ask(
        cluster,
        principal,
        "CreateDelegationTokenRequest",
        owner_principal_type=kind,
        owner_principal_name=name,
        max_lifetime_ms=lifetime_ms,
        renewers=[{"principal_type": kind, "principal_name": name} for kind, _, name in people],
        **more,
    )


def renew(cluster: Cluster, password: bytes, principal: str = ANN, period_ms: int = -1) -> Any:
    return ask(
        cluster, principal, "RenewDelegationTokenRequest", hmac=password, renew_period_ms=period_ms
    )


def expire(cluster: Cluster, password: bytes, principal: str = ANN, period_ms: int = -1) -> Any:
    return ask(
        cluster,
        principal,
        "ExpireDelegationTokenRequest",
        hmac=password,
        expiry_time_period_ms=period_ms,
    )


def test_response_has_the_token_and_its_hmac() -> None:
    cluster = cluster_with_tokens()
    answer = create(cluster, ANN, BEN)
    assert (answer.error_code, answer.principal_type, answer.principal_name) == (0, "User", "ann")
    assert (answer.token_requester_principal_type, answer.token_requester_principal_name) == (
        "User",
        "ann",
    )
    assert answer.hmac == hmac.digest(b"key", answer.token_id.encode(), hashlib.sha512)
    token = cluster.image.tokens[answer.token_id]
    assert (token.owner, token.requester, token.renewers) == (ANN, ANN, [BEN])
    assert token.issue_timestamp == answer.issue_timestamp_ms == cluster.now_ms
    assert token.expiration_timestamp == answer.expiry_timestamp_ms == cluster.now_ms + DAY_MS
    assert token.max_timestamp == answer.max_timestamp_ms == cluster.now_ms + 7 * DAY_MS


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry_ms", "latest_ms"),
    [
        (5, 5, 5),
        (2 * DAY_MS, DAY_MS, 2 * DAY_MS),
        (0, DAY_MS, 7 * DAY_MS),
        (2**63 - 1, DAY_MS, 7 * DAY_MS),
    ],
)
def test_lifetime_is_the_shorter_of_request_and_setting(
    lifetime_ms: int, expiry_ms: int, latest_ms: int
) -> None:
    cluster = cluster_with_tokens()
    answer = create(cluster, lifetime_ms=lifetime_ms)
    assert answer.expiry_timestamp_ms == cluster.now_ms + expiry_ms
    assert answer.max_timestamp_ms == cluster.now_ms + latest_ms


def test_times_are_limited_to_64_bits() -> None:
    cluster = cluster_with_tokens(token_max_lifetime_ms=2**63 - 1)
    assert create(cluster).max_timestamp_ms == 2**63 - 1


def test_token_for_another_owner_needs_create_tokens() -> None:
    cluster = cluster_with_tokens()
    forbidden = [("CREATE_TOKENS", "USER", BEN)]
    answer = create(cluster, ANN, owner=BEN, forbidden=forbidden)
    assert (
        answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        and not cluster.image.tokens
    )
    assert (
        answer.principal_name,
        answer.token_requester_principal_name,
        answer.max_timestamp_ms,
    ) == ("ben", "ann", -1)
    answer = create(cluster, ANN, owner=BEN)
    token = cluster.image.tokens[answer.token_id]
    assert (token.owner, token.requester) == (BEN, ANN)
    assert renew(cluster, answer.hmac, ANN).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(cluster, answer.hmac, BEN).error_code == 0
    assert create(cluster, BEN, owner=BEN, forbidden=forbidden).error_code == 0, (
        "for oneself needs no right"
    )


@pytest.mark.parametrize("renewer", ["Group:staff", ":x", "user:x"])
def test_renewer_must_be_a_user(renewer: str) -> None:
    cluster = cluster_with_tokens()
    assert (
        create(cluster, ANN, BEN, renewer).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        and not cluster.image.tokens
    )


@pytest.mark.parametrize("kind", [None, "User:ben"])
def test_invalid_owner_type_is_refused(kind: str | None) -> None:
    cluster = cluster_with_tokens()
    fields = {"owner_principal_type": kind, "owner_principal_name": "x"}
    assert (
        ask(cluster, ANN, "CreateDelegationTokenRequest", **fields).error_code
        == ErrorCode.INVALID_PRINCIPAL_TYPE
    )


def test_renewal_ends_at_the_maximum_lifetime() -> None:
    cluster = cluster_with_tokens()
    made_at, password = cluster.now_ms, create(cluster).hmac
    cluster.now_ms += MINUTE_MS
    assert renew(cluster, password).expiry_timestamp_ms == cluster.now_ms + DAY_MS
    assert renew(cluster, password, period_ms=5).expiry_timestamp_ms == cluster.now_ms + 5
    renew(cluster, password)
    for _ in range(10):
        cluster.now_ms += DAY_MS - 1
        answer = renew(cluster, password)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    (token,) = cluster.image.tokens.values()
    assert token.expiration_timestamp == token.max_timestamp == made_at + 7 * DAY_MS


def test_owner_and_renewer_can_expire_a_token() -> None:
    cluster = cluster_with_tokens()
    password = create(cluster, ANN, BEN).hmac
    assert (
        expire(cluster, password, "User:eve").error_code
        == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    )
    assert (
        expire(cluster, password, BEN, MINUTE_MS).expiry_timestamp_ms == cluster.now_ms + MINUTE_MS
    )
    assert (
        expire(cluster, password, ANN, 9 * DAY_MS).expiry_timestamp_ms
        == cluster.now_ms + 7 * DAY_MS
    )
    assert expire(cluster, password, ANN, 0).expiry_timestamp_ms == cluster.now_ms
    cluster.now_ms += 1
    assert (
        expire(cluster, password, ANN, MINUTE_MS).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    )
    assert renew(cluster, password).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    answer = expire(cluster, password)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (
        0,
        cluster.now_ms,
    ) and not cluster.image.tokens
    assert expire(cluster, password).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_token_is_found_by_hmac_after_an_election() -> None:
    cluster = cluster_with_tokens()
    passwords = [create(cluster).hmac for _ in range(20)]
    cluster.elect()
    assert [renew(cluster, password).error_code for password in passwords] == [0] * 20
    assert renew(cluster, b"").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert renew(cluster, passwords[0][:-1]).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_index_forgets_the_hmacs_of_removed_tokens() -> None:
    cluster = cluster_with_tokens()
    for _ in range(20):
        password = create(cluster).hmac
        assert expire(cluster, password).error_code == 0
    assert cluster.controller._state is not None
    index = cluster.controller._state.token_index
    assert not index._ids and not index._hmacs and not index._not_computed


def test_unknown_hmac_is_looked_up_in_slices_and_hashes_each_token_once() -> None:
    secret = Secret("key")
    index = TokenIndex()
    index.add_all(f"token-{number}" for number in range(100))
    assert sum(1 for _ in index.find(secret, b"unknown")) == 100
    assert sum(1 for _ in index.find(secret, b"unknown")) == 0
    assert run(index.find(secret, token_hmac(secret, "token-7"))) == "token-7"
    index.add("new")
    index.add("token-7")
    assert sum(1 for _ in index.find(secret, b"unknown")) == 1
    index.remove("token-7")
    assert run(index.find(secret, token_hmac(secret, "token-7"))) is None


def test_tokens_are_disabled_without_a_secret_key() -> None:
    cluster = Cluster()
    answer = create(cluster)
    assert (answer.error_code, answer.principal_name) == (
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        "ann",
    )
    assert (answer.issue_timestamp_ms, answer.hmac) == (0, b"")
    assert (
        renew(cluster, b"x").error_code
        == expire(cluster, b"x").error_code
        == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    )


def test_old_metadata_version_has_no_tokens() -> None:
    cluster = cluster_with_tokens(level=13)
    assert (
        create(cluster).error_code
        == renew(cluster, b"x").error_code
        == ErrorCode.UNSUPPORTED_VERSION
    )
    assert create(cluster_with_tokens(level=14)).error_code == 0


def test_expired_tokens_are_removed_periodically() -> None:
    cluster = cluster_with_tokens(
        token_expiry_check_interval_ms=1000, broker_session_timeout_ms=10**9
    )
    cluster.controller.activate(cluster.image, cluster.now_ms)
    short = create(cluster, lifetime_ms=500)
    kept = create(cluster)
    assert cluster.controller.poll(cluster.now_ms + 999) == []
    cluster.now_ms += 1000
    (swept,) = cluster.controller.poll(cluster.now_ms)
    removed: list[Any] = [record.message for record in swept.records]
    assert swept.name == "sweepExpiredDelegationTokens"
    assert [(message.NAME, message.token_id) for message in removed] == [
        ("RemoveDelegationTokenRecord", short.token_id)
    ]
    cluster.commit(swept)
    assert list(cluster.image.tokens) == [kept.token_id]
    assert cluster.controller.image is not None and same(
        cluster.controller.image, replayed(cluster.log)
    )


def test_many_expired_tokens_are_looked_at_in_slices() -> None:
    cluster = cluster_with_tokens(
        token_expiry_check_interval_ms=1000, broker_session_timeout_ms=10**9
    )
    cluster.controller.activate(cluster.image, cluster.now_ms)
    create(cluster, lifetime_ms=1)
    image = cluster.controller.image
    assert image is not None
    (token,) = image.tokens.values()
    for number in range(25_000):
        image.tokens[f"t{number}"] = token.copy(token_id=f"t{number}")
    later_ms = cluster.now_ms + 5000
    sweep = cluster.controller.periodic(later_ms, steady_ms=later_ms)
    swept: list[Any] = []

    def resume() -> None:
        try:
            next(sweep)
        except StopIteration as end:
            swept.extend(end.value)

    longest = 0
    while not swept:
        longest = max(longest, work(resume))
    assert longest < 20_000  # of 1,000 tokens
    assert len(swept[0].records) == OPERATION_RECORDS_MAX
