"""Delegation tokens on listeners: clients that may use the APIs, tokens that each may see, and the
cluster's key.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gateway.config.config import Config
from gateway.handlers.apis import describe_delegation_token
from gateway.handlers.context import Context
from gateway.handlers.delegation_tokens import may_ask_for_tokens
from gateway.handlers.refusals import REFUSED
from gateway.ports.services import Endpoint, Forwarder
from gateway.ports.streamed import Streamed
from gateway.security.delegation_tokens import token_hmac
from gateway.security.secret import Secret
from kwire.messages.delegation_token_record import DelegationTokenRecord
from kwire.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kwire.protocol import ErrorCode
from tests.gateway.handlers.admin_handlers import (
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import MemoryQuorum, World
from tests.work import work

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
ME = "User:ANONYMOUS"


class SaslWorld(World):
    """Clients are authenticated by SASL; this node has the key of the cluster that it observes."""

    def __init__(self) -> None:
        super().__init__(
            quorum=MemoryQuorum(), config=Config(security={"delegation.token.secret.key": "key"})
        )

    def endpoint(self, listener: str) -> Endpoint:
        return replace(super().endpoint(listener), security_protocol="SASL_PLAINTEXT")

    def token(
        self, token_id: str, owner: str, *renewers: str, requester: str | None = None
    ) -> None:
        self.quorum_image.tokens[token_id] = DelegationTokenRecord(
            owner=owner,
            requester=requester or owner,
            renewers=list(renewers),
            issue_timestamp=1,
            max_timestamp=3,
            expiration_timestamp=2,
            token_id=token_id,
        )

    def told(self, *owners: str, all: bool = False) -> list[str]:
        people = [owner.partition(":") for owner in owners]
        asked = (
            None
            if all
            else [{"principal_type": kind, "principal_name": name} for kind, _, name in people]
        )
        answer = self.ask(describe_delegation_token, 3, owners=asked)
        assert answer.error_code == 0
        return [one.token_id for one in answer.tokens]


#: The node that forwards a request in an Envelope.
NODE = Forwarder("User:node", "127.0.0.1", "raft-client-2")


def asked_by(context: Context, protocol: str, **peer: Any) -> Context:
    class Listening(World):
        def endpoint(self, listener: str) -> Endpoint:
            return replace(super().endpoint(listener), security_protocol=protocol)

    return replace(context, peer=replace(context.peer, **peer), gateway=Listening())


@pytest.mark.parametrize(
    ("protocol", "peer", "may"),
    [
        ("PLAINTEXT", {}, False),
        ("PLAINTEXT", {"forwarder": NODE}, True),
        ("SSL", {}, False),
        ("SSL", {"principal": "User:CN=ann"}, True),
        ("SASL_PLAINTEXT", {"principal": "User:ann"}, True),
        ("SASL_SSL", {"principal": "User:ann"}, True),
        ("SASL_SSL", {"principal": "User:ann", "token_authenticated": True}, False),
        ("PLAINTEXT", {"forwarder": NODE, "token_authenticated": True}, False),
    ],
)
def test_authenticated_client_without_a_token_may_use_the_apis(
    protocol: str, peer: dict[str, Any], may: bool
) -> None:
    assert may_ask_for_tokens(asked_by(World().context(3), protocol, **peer)) is may


@pytest.mark.parametrize("version", create_delegation_token.versions)
def test_unauthorized_request_is_refused_at_once(version: int) -> None:
    world = OwnWorld()
    answer = world.ask(create_delegation_token, version, renewers=[], max_lifetime_ms=-1)
    assert (answer.error_code, answer.principal_name, answer.max_timestamp_ms) == (
        NOT_ALLOWED,
        "ANONYMOUS",
        -1,
    )
    earlier = min(version, 2)
    for handler in (renew_delegation_token, expire_delegation_token):
        answer = world.ask(handler, earlier, hmac=b"x")
        assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
    answer = world.ask(describe_delegation_token, version, owners=None)
    assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, [])
    assert not world.controller.askers


def test_changes_are_refused_over_an_observed_cluster() -> None:
    assert (
        World().ask(create_delegation_token, 3, renewers=[], max_lifetime_ms=-1).error_code
        == REFUSED
    )
    for handler in (renew_delegation_token, expire_delegation_token):
        assert World().ask(handler, 2, hmac=b"x").error_code == REFUSED


def test_client_sees_its_own_tokens_and_those_it_may_describe() -> None:
    world = SaslWorld()
    world.token("mine", ME)
    world.token("renewed", "User:ann", ME)
    world.token("asked for", "User:ann", requester=ME)
    world.token("hers", "User:ann", "User:ben")
    assert world.told(all=True) == ["mine", "renewed", "asked for", "hers"], (
        "who may describe all is told of all"
    )
    assert world.told() == []
    assert world.told(ME) == ["mine", "renewed", "asked for"]
    assert world.told("User:ben", "User:eve") == ["hers"]
    world.authorizer.forbidden = {
        ("DESCRIBE", "DELEGATION_TOKEN", "*"),
        ("DESCRIBE_TOKENS", "USER", "*"),
    }
    assert world.told(all=True) == ["mine", "renewed", "asked for"]
    assert world.told("User:ann") == ["renewed", "asked for"]
    world.authorizer.forbidden = {("DESCRIBE", "DELEGATION_TOKEN", "*")}
    assert "hers" in world.told(all=True), "the right to see an owner's tokens is enough"
    world.authorizer.forbidden = {("DESCRIBE_TOKENS", "USER", "*")}
    assert "hers" in world.told(all=True), "and so is that to see the token"


def test_many_renewers_of_few_tokens_are_described_in_slices() -> None:
    world = SaslWorld()
    renewers = [f"User:{number}" for number in range(10_000)]
    for token_id in "ab":
        world.token(token_id, ME, *renewers)
    request = DescribeDelegationTokenRequest(owners=None)
    answer = describe_delegation_token.handle(request, world.context(3, "PLAINTEXT"))
    assert isinstance(answer, Streamed)
    for token in answer.elements:
        assert isinstance(token, Streamed)
        assert work(partial(next, token.elements)) < 100
    described = world.ask(describe_delegation_token, 3, owners=None)
    names = [one.principal_name for one in described.tokens[1].renewers]
    assert names == [str(number) for number in range(10_000)]


@pytest.mark.parametrize("version", describe_delegation_token.VERSIONS)
def test_description_has_every_field_of_the_token(version: int) -> None:
    world = SaslWorld()
    world.token("id", "User:a:b", "User:ben", requester="User:ann")
    (token,) = world.ask(describe_delegation_token, version, owners=None).tokens
    assert (token.principal_type, token.principal_name) == ("User", "a:b")
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (1, 2, 3)
    assert token.hmac == token_hmac(Secret("key"), "id")
    assert [(one.principal_type, one.principal_name) for one in token.renewers] == [("User", "ben")]
    assert token.token_requester_principal_name == ("ann" if version >= 3 else "")


@pytest.mark.parametrize("security", [{}, {"delegation.token.secret.key": ""}])
def test_describe_without_the_secret_key_is_refused(security: dict[str, str]) -> None:
    world = SaslWorld()
    world.config = Config(security=security)
    world.token("id", ME)
    answer = world.ask(describe_delegation_token, 3, owners=None)
    assert (answer.error_code, answer.tokens) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, [])


def test_authorized_request_reaches_the_controller() -> None:
    class SaslOwnWorld(OwnWorld):
        def endpoint(self, listener: str) -> Endpoint:
            return replace(super().endpoint(listener), security_protocol="SASL_SSL")

    world = SaslOwnWorld()
    answer = world.ask(create_delegation_token, 3, renewers=[], max_lifetime_ms=-1)
    assert (answer.error_code, answer.principal_name) == (
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        "ANONYMOUS",
    )
    for handler in (renew_delegation_token, expire_delegation_token):
        assert (
            world.ask(handler, 2, hmac=b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        )
    assert [one.principal for one in world.controller.askers] == [ME] * 3
