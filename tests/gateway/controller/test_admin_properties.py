"""Random requests about ACLs, quotas, credentials and tokens: none raises, and the controller's
state equals the image of its log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.security.delegation_tokens import token_hmac
from gateway.security.secret import Secret
from kwire.message import Message
from tests.gateway.controller.cluster import Cluster, made, replayed, same
from tests.kwire.values import random_message

REQUESTS = (
    "CreateAclsRequest",
    "DeleteAclsRequest",
    "AlterClientQuotasRequest",
    "AlterUserScramCredentialsRequest",
    "CreateDelegationTokenRequest",
    "RenewDelegationTokenRequest",
    "ExpireDelegationTokenRequest",
)
SECRET = Secret("key")
NAMES = ("ann", "ben", "a*b", "", "*", "ü" * 300)
KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "connection_creation_rate",
    "nothing",
)


def likely(name: str, rng: random.Random, tokens: Iterable[str] = ()) -> Message:
    """A request that often succeeds, or nearly. ``tokens`` are the ids of those that there are."""
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "CreateAclsRequest": lambda: {"creations": [_acl(rng) for _ in range(rng.randrange(4))]},
        "DeleteAclsRequest": lambda: {"filters": [_filter(rng) for _ in range(rng.randrange(3))]},
        "AlterClientQuotasRequest": lambda: {
            "entries": [_quota(rng) for _ in range(rng.randrange(4))],
            "validate_only": rng.random() < 0.1,
        },
        "AlterUserScramCredentialsRequest": lambda: _scram(rng),
        "CreateDelegationTokenRequest": lambda: {
            "max_lifetime_ms": rng.choice((-1, 5, 10**18)),
            "renewers": [{"principal_type": "User", "principal_name": "ann"}],
        },
        "RenewDelegationTokenRequest": lambda: {
            "hmac": _password(rng, tokens),
            "renew_period_ms": rng.choice((-1, 1, 10**18)),
        },
        "ExpireDelegationTokenRequest": lambda: {
            "hmac": _password(rng, tokens),
            "expiry_time_period_ms": rng.choice((-1, 0, 1, 10**18)),
        },
    }
    return made(name, **makers[name]())


def _acl(rng: random.Random) -> dict[str, Any]:
    return {
        "resource_type": rng.choice((2, 2, 2, 3, 4, 1)),
        "resource_name": rng.choice((*NAMES, "kafka-cluster")),
        "resource_pattern_type": rng.choice((3, 3, 3, 4, 4, 2)),
        "principal": rng.choice(("User:ann", "User:*", "User:ben", "Group:x", "ann")),
        "host": rng.choice(("*", "10.0.0.1")),
        "operation": rng.choice((*range(2, 10), 1)),
        "permission_type": rng.choice((3, 2, 3, 2, 1)),
    }


def _filter(rng: random.Random) -> dict[str, Any]:
    return {
        "resource_type_filter": rng.choice((2, 3, 3, 0)),
        "resource_name_filter": rng.choice((*NAMES, None)),
        "pattern_type_filter": rng.choice((1, 2, 3, 4)),
        "principal_filter": rng.choice((None, "User:ann")),
        "host_filter": rng.choice((None, "*")),
        "operation": rng.choice((1, 3)),
        "permission_type": rng.choice((1, 3)),
    }


def _quota(rng: random.Random) -> dict[str, Any]:
    kinds = rng.choice(
        (
            ["user"],
            ["user"],
            ["client-id"],
            ["user", "client-id"],
            ["ip"],
            ["ip", "user"],
            [],
            ["group"],
        )
    )
    ops = [
        {
            "key": key,
            "value": rng.choice((1.0, 2.0, 3.0, 4.0, 0.5, -1.0)),
            "remove": rng.random() < 0.3,
        }
        for key in rng.sample(KEYS, 2)
    ]
    names = (*NAMES, None, "10.0.0.1")
    return {
        "entity": [{"entity_type": kind, "entity_name": rng.choice(names)} for kind in kinds],
        "ops": ops[: rng.choice((1, 1, 2))],
    }


def _password(rng: random.Random, tokens: Iterable[str]) -> bytes:
    return token_hmac(SECRET, rng.choice([*tokens, "nothing"]))


def _scram(rng: random.Random) -> dict[str, Any]:
    deletions = [
        {"name": rng.choice(NAMES), "mechanism": rng.choice((1, 2, 3))}
        for _ in range(rng.randrange(2))
    ]
    upsertions = [
        {
            "name": rng.choice(NAMES),
            "mechanism": rng.choice((1, 2, 1, 2, 0)),
            "iterations": rng.choice((4096, 4096, 5000, 1)),
            "salt": rng.randbytes(8),
            "salted_password": rng.randbytes(rng.choice((0, 32, 32, 32))),
        }
        for _ in range(rng.randrange(3))
    ]
    return {"deletions": deletions, "upsertions": upsertions}


@pytest.mark.parametrize("level", range(7, 31))
def test_state_equals_the_image_of_the_log_at_every_level(level: int) -> None:
    rng = random.Random(level)
    cluster = Cluster(level=level, seed=level, token_secret=SECRET)
    written = 0
    for _ in range(250):
        before = len(cluster.log)
        cluster.now_ms += rng.randrange(3)
        cluster.ask(likely(rng.choice(REQUESTS), rng, cluster.image.tokens))
        written += len(cluster.log) - before
    assert written > 15, "too few of the requests did anything"


@pytest.mark.parametrize("seed", range(10))
def test_uncommitted_proposals_leave_no_trace(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(seed=seed, token_secret=SECRET)
    for _ in range(8):
        for _ in range(rng.randrange(6)):
            cluster.ask(likely(rng.choice(REQUESTS), rng, cluster.image.tokens))
        for _ in range(rng.randrange(8)):  # decided and never committed
            request = likely(rng.choice(REQUESTS), rng, cluster.image.tokens)
            cluster.decide(request, type(request).VERSIONS[-1])
        cluster.controller.deactivate()
        cluster.elect()
        assert cluster.controller.image is not None
        assert same(cluster.controller.image, replayed(cluster.log))


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("seed", range(10))
def test_random_request_never_raises(name: str, seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(seed=seed, token_secret=SECRET)
    request_type = type(made(name))
    for version in request_type.VERSIONS:
        for _ in range(8):
            cluster.ask(random_message(request_type, version, rng, tags=False), version)
    assert len(cluster.log) < 100 * OPERATION_RECORDS_MAX
