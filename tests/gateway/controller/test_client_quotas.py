"""AlterClientQuotas: entities and keys, valid values, and records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from kwire.protocol import ErrorCode
from tests.gateway.controller.cluster import Cluster, made

PRODUCED, CONSUMED, SHARE, CONNECTED = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "connection_creation_rate",
)


def entry(entity: Mapping[str, str | None], **changes: float | None) -> dict[str, Any]:
    return {
        "entity": [
            {"entity_type": kind.replace("_", "-"), "entity_name": name}
            for kind, name in entity.items()
        ],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in changes.items()
        ],
    }


def alter(
    cluster: Cluster, *entries: dict[str, Any], forbidden: Any = (), **more: Any
) -> list[tuple[int, str | None]]:
    request = made("AlterClientQuotasRequest", entries=list(entries), **more)
    return [
        (one.error_code, one.error_message)
        for one in cluster.ask(request, forbidden=forbidden).entries
    ]


def test_quotas_are_set_changed_and_removed() -> None:
    cluster = Cluster()
    user = {"user": "ann"}
    assert alter(cluster, entry(user, **{PRODUCED: 1024.0, SHARE: 12.5})) == [(0, None)]
    assert cluster.image.quotas == {(("user", "ann"),): {PRODUCED: 1024.0, SHARE: 12.5}}
    before = len(cluster.log)
    assert alter(cluster, entry(user, **{PRODUCED: 1024.0, CONSUMED: None})) == [(0, None)]
    assert len(cluster.log) == before, "nothing new, nothing to take away"
    assert alter(cluster, entry(user, **{PRODUCED: None, SHARE: 1.0})) == [(0, None)]
    assert cluster.image.quotas == {(("user", "ann"),): {SHARE: 1.0}}
    assert alter(cluster, entry(user, **{SHARE: None})) == [(0, None)]
    assert not cluster.image.quotas


@pytest.mark.parametrize(
    "entity",
    [
        {"user": None},
        {"client_id": "app"},
        {"client_id": None},
        {"user": "ann", "client_id": "app"},
        {"user": None, "client_id": None},
        {"client_id": "app", "user": None},
    ],
)
def test_users_and_clients_can_have_byte_rates(entity: dict[str, str | None]) -> None:
    cluster = Cluster()
    assert alter(cluster, entry(entity, **{PRODUCED: 5.0})) == [(0, None)]
    assert list(cluster.image.quotas) == [
        tuple(sorted((kind.replace("_", "-"), name) for kind, name in entity.items()))
    ]
    assert alter(cluster, entry(entity, **{CONNECTED: 5.0}))[0][0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "[fe80::1]", None])
def test_addresses_have_quotas_of_connections(address: str | None) -> None:
    cluster = Cluster()
    assert alter(cluster, entry({"ip": address}, **{CONNECTED: 5.0})) == [(0, None)]
    assert (
        alter(cluster, entry({"ip": address}, **{PRODUCED: 5.0}))[0][0] == ErrorCode.INVALID_REQUEST
    )


@pytest.mark.parametrize(
    ("entity", "why"),
    [
        ({}, "empty client quota entity"),
        ({"user": ""}, "Empty user not supported"),
        ({"group": "g"}, "Unhandled client quota entity type: group"),
        ({"ip": "10.0.0.1", "user": "ann"}, "IP entity should not be combined"),
        ({"ip": "300.0.0.1"}, "not a valid IP"),
        ({"ip": "fe80::1%eth0"}, "not a valid IP"),
        ({"ip": "fe80::1%\u0661"}, "not a valid IP"),
        ({"ip": "10.0.0.1\xa0"}, "not a valid IP"),
        ({"ip": "host.example"}, "names of hosts are not looked up"),
    ],
)
def test_invalid_entity_is_refused(entity: dict[str, str | None], why: str) -> None:
    cluster = Cluster()
    ((error, message),) = alter(cluster, entry(entity, **{PRODUCED: 5.0}))
    assert error == ErrorCode.INVALID_REQUEST and message is not None and why in message
    assert not cluster.image.quotas


@pytest.mark.parametrize(
    ("entity", "key", "value", "why"),
    [
        ("user", PRODUCED, 0.0, "must be greater than 0"),
        ("user", SHARE, -1.0, "must be greater than 0"),
        ("user", SHARE, math.nan, "must be a finite number"),
        ("user", SHARE, math.inf, "must be a finite number"),
        ("user", PRODUCED, -math.inf, "must be a finite number"),
        ("user", PRODUCED, 2.0**64, "too large for a LONG"),
        ("user", CONSUMED, 1e19, "too large for a LONG"),
        ("user", PRODUCED, 5.5, "cannot be a fractional value"),
        ("ip", CONNECTED, 2.0**31, "too large for an INT"),
        ("user", "bytes", 5.0, "Invalid configuration key bytes"),
    ],
)
def test_invalid_value_is_refused(entity: str, key: str, value: float, why: str) -> None:
    cluster = Cluster()
    ((error, message),) = alter(
        cluster,
        entry({entity: None}, **{SHARE if entity == "user" else CONNECTED: 1.0, key: value}),
    )
    assert error == ErrorCode.INVALID_REQUEST and message is not None and why in message
    assert not cluster.image.quotas, "all of an entity's changes or none"


@pytest.mark.parametrize(
    ("key", "value"), [(PRODUCED, 5.0000001), (PRODUCED, 2.0**63), (SHARE, 1e300), (SHARE, 0.001)]
)
def test_values_near_the_limits_are_accepted(key: str, value: float) -> None:
    cluster = Cluster()
    assert alter(cluster, entry({"user": "ann"}, **{key: value})) == [(0, None)]
    assert cluster.image.quotas[("user", "ann"),] == {key: value}


def test_each_entity_has_one_result() -> None:
    cluster = Cluster()
    twice = entry({"user": "ann"}, **{PRODUCED: 2.0})
    got = alter(
        cluster, entry({"user": "ann"}, **{PRODUCED: 1.0}), entry({"user": "ben"}, bytes=1.0), twice
    )
    assert [error for error, _ in got] == [ErrorCode.INVALID_REQUEST] * 2
    assert got[0][1] is not None and "duplicate entity" in got[0][1]
    assert cluster.image.quotas == {(("user", "ann"),): {PRODUCED: 1.0}}, (
        "what came first was done, as Kafka does it"
    )


def test_repeated_key_is_refused() -> None:
    cluster = Cluster()
    both = entry({"user": "ann"}, **{PRODUCED: 1.0})
    both["ops"] *= 2
    assert alter(cluster, both)[0][0] == ErrorCode.INVALID_REQUEST and not cluster.image.quotas


def test_validate_only_writes_nothing() -> None:
    cluster = Cluster()
    good, bad = entry({"user": "ann"}, **{PRODUCED: 1.0}), entry({"user": "ben"}, bytes=1.0)
    assert [error for error, _ in alter(cluster, good, bad, validate_only=True)] == [
        0,
        ErrorCode.INVALID_REQUEST,
    ]
    assert not cluster.image.quotas


def test_quotas_need_alter_configs_on_the_cluster() -> None:
    cluster = Cluster()
    got = alter(
        cluster,
        entry({"user": "ann"}, **{PRODUCED: 1.0}),
        forbidden=[("ALTER_CONFIGS", "CLUSTER", "kafka-cluster")],
    )
    assert [error for error, _ in got] == [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    ] and not cluster.image.quotas
