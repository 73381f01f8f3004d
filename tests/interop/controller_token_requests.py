"""Requests about delegation tokens to Kafka's controller and to kwire's, as steps that may use
the responses to the steps before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kwire.message import Message
from tests.gateway.controller.cluster import made
from tools.kafka_security import ADMIN, OUTSIDER

MINUTE_MS: Final = 60_000
DAYS_MS: Final = 24 * 60 * MINUTE_MS
#: The responses to the steps before, by the steps' names.
Told = Mapping[str, Any]


class Step(NamedTuple):
    """``user`` asks for what ``request`` gives, which may name a token by the step that made it."""

    about: str
    user: str
    request: Callable[[Told], Message]


def create(*renewers: str, owner: str = "", lifetime_ms: int = -1) -> Callable[[Told], Message]:
    kind, _, name = owner.partition(":")
    people = [renewer.partition(":") for renewer in renewers]
    return lambda _: made(
        "CreateDelegationTokenRequest",
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[{"principal_type": kind, "principal_name": name} for kind, _, name in people],
        max_lifetime_ms=lifetime_ms,
    )


def renew(step: str, period_ms: int = -1) -> Callable[[Told], Message]:
    return lambda told: made(
        "RenewDelegationTokenRequest", hmac=_hmac(told, step), renew_period_ms=period_ms
    )


def expire(step: str, period_ms: int = -1) -> Callable[[Told], Message]:
    return lambda told: made(
        "ExpireDelegationTokenRequest", hmac=_hmac(told, step), expiry_time_period_ms=period_ms
    )


def describe(*owners: str, all: bool = False) -> Callable[[Told], Message]:
    people = [owner.partition(":") for owner in owners]
    asked = (
        None
        if all
        else [{"principal_type": kind, "principal_name": name} for kind, _, name in people]
    )
    return lambda _: made("DescribeDelegationTokenRequest", owners=asked)


def _hmac(told: Told, step: str) -> bytes:
    return told[step].hmac if step in told else step.encode()


A, S = f"User:{ADMIN}", f"User:{OUTSIDER}"
STEPS: Final = [
    Step("none yet", ADMIN, describe(all=True)),
    Step("make", OUTSIDER, create()),
    Step("with a renewer", OUTSIDER, create(A)),
    Step("with many", ADMIN, create(S, "User:x:y", "User:")),
    Step("a group that renews", OUTSIDER, create("Group:staff")),
    Step("for another, forbidden", OUTSIDER, create(owner=A)),
    Step("for another", ADMIN, create(owner=S)),
    Step("for a group", ADMIN, create(owner="Group:staff")),
    Step("for himself, by name", OUTSIDER, create(owner=S)),
    Step("short", OUTSIDER, create(lifetime_ms=10 * MINUTE_MS)),
    Step("for two days", OUTSIDER, create(lifetime_ms=2 * DAYS_MS)),
    Step("for ever", OUTSIDER, create(lifetime_ms=2**63 - 1)),
    Step("renew", OUTSIDER, renew("make")),
    Step("renew for a while", OUTSIDER, renew("make", 5 * MINUTE_MS)),
    Step("renew for long", OUTSIDER, renew("make", 3 * DAYS_MS)),
    Step("renew what is short", OUTSIDER, renew("short", 5 * DAYS_MS)),
    Step("renewed by who may", ADMIN, renew("with a renewer", 5 * MINUTE_MS)),
    Step("renewed by who may not", ADMIN, renew("make")),
    Step("renewed by who asked for it", ADMIN, renew("for another")),
    Step("renewed by its owner", OUTSIDER, renew("for another")),
    Step("renew what is not there", OUTSIDER, renew("nothing")),
    Step("expire what is not there", OUTSIDER, expire("nothing")),
    Step("expire by who may not", ADMIN, expire("make")),
    Step("expire in a while", OUTSIDER, expire("make", 7 * MINUTE_MS)),
    Step("expire later than it lives", OUTSIDER, expire("short", 5 * DAYS_MS)),
    Step("expire now", OUTSIDER, expire("for two days")),
    Step("expire again", OUTSIDER, expire("for two days")),
    Step("renew what is gone", OUTSIDER, renew("for two days")),
    Step("expire at once", OUTSIDER, expire("for ever", 0)),
    Step("renew what has expired", OUTSIDER, renew("for ever")),
    Step("expire what has expired", OUTSIDER, expire("for ever", MINUTE_MS)),
    Step("all, of who may see all", ADMIN, describe(all=True)),
    Step("all, of one's own", OUTSIDER, describe(all=True)),
    Step("of an owner", ADMIN, describe(S)),
    Step("of several", ADMIN, describe(A, "Group:staff")),
    Step("of a renewer", ADMIN, describe("User:x:y")),
    Step("of another, forbidden", OUTSIDER, describe(A)),
    Step("of nobody", ADMIN, describe()),
    Step("of who has none", ADMIN, describe("User:nobody")),
    Step("remove what has expired", OUTSIDER, expire("for ever")),
]
