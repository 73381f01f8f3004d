"""The authorization matrix: every API of both kinds of listener, direct and in an Envelope, with
and without permissions.

The authorizer is the real one, over ACLs; an API without a row, or without a reason for having
none, is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from gateway.handlers.apis import envelope, offset_commit
from gateway.handlers.apis.envelope import FORWARDABLE
from gateway.handlers.context import Context, Handler, Peer
from gateway.handlers.table import controller_handlers, handlers
from gateway.ports.answer_errors import errors_of
from gateway.ports.pending_response import PendingResponse
from gateway.security.acls import ALLOW, DENY, LITERAL, RESOURCE_TYPES
from gateway.security.principal import Principal, encode_principal
from gateway.security.standard_authorizer import OPERATIONS, StandardAuthorizer
from kwire.cluster import Image
from kwire.header import decode_response_header, encode_request_header
from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.envelope_request import EnvelopeRequest
from kwire.registry import response_type
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.handlers.authorization import (
    CLIENTS,
    CONTROLLERS,
    GROUP,
    NO_QUESTION,
    OTHER_TOPIC,
    REFUSED_TO_ALL,
    TOPIC,
    Need,
    Row,
    cluster,
)
from tests.gateway.handlers.group_world import CoreGroups
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import build, over_the_wire

ANONYMOUS, USER, ADMIN, BROKER = "User:ANONYMOUS", "User:user", "User:admin", "User:broker"
AUTHORIZATION_ERRORS = {29, 30, 31, 53, 65}
LISTENERS = {"PLAINTEXT": handlers, "CONTROLLER": controller_handlers}


class Voter:
    """``gateway.ports.services.RaftPeers`` that answers at once: requests that get here are
    authorized.
    """

    kraft_version = 1

    def ask(self, request: Message, version: int, listener: str, pending: Any) -> None:
        assert request.API_KEY is not None
        pending.complete(response_type(request.API_KEY)())


class SecuredWorld(OwnWorld):
    """A node with the real authorizer: ADMIN is a super user, BROKER acts for the cluster, USER may
    what :meth:`allow` says.
    """

    def __init__(self) -> None:
        super().__init__()
        self.groups = CoreGroups()
        self.raft = Voter()
        self.principal = ADMIN
        self._ids = count(1)
        self.authorizer = StandardAuthorizer(  # type: ignore[assignment]
            super_users=frozenset({ADMIN})
        )
        self.create(TOPIC, [7], [7])
        self.create(OTHER_TOPIC, [7])
        partition = {"committed_offset": 1, "committed_metadata": ""}
        self.ask(
            offset_commit,
            10,
            group_id=GROUP,
            topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
        )
        self.allow(*cluster("CLUSTER_ACTION"), principal=BROKER)

    @property
    def image(self) -> Image:
        assert self.quorum is not None
        return self.quorum.image

    def allow(self, *needs: Need, principal: str = USER, permission: int = ALLOW) -> None:
        for operation, kind, name in needs:
            id = Uuid(next(self._ids).to_bytes(16, "big"))
            self.commit(
                AccessControlEntryRecord(
                    id=id,
                    resource_type=RESOURCE_TYPES[kind],
                    resource_name=name,
                    pattern_type=LITERAL,
                    principal=principal,
                    host="*",
                    operation=OPERATIONS[operation],
                    permission_type=permission,
                )
            )

    def commit(self, *records: Message) -> None:
        super().commit(*records)
        if isinstance(self.authorizer, StandardAuthorizer):
            self.authorizer.on_update(None, self.image)

    def context(self, version: int, listener: str = "PLAINTEXT") -> Context:
        context = super().context(version, listener)
        context.peer = Peer(listener, self.principal, "127.0.0.1", 50000, 1)
        context.apis = LISTENERS[listener]()
        return context

    def request(self, row: Row, listener: str) -> tuple[Handler, Message, int]:
        handler = LISTENERS[listener]()[row.api_key]
        version = handler.versions[-1]
        return handler, build(handler.request_type(version), row.fields), version

    def answer(self, row: Row, listener: str, principal: str) -> Any:
        """The response to ``principal``."""
        self.principal = principal
        handler, request, version = self.request(row, listener)
        answer = handler.handle(
            type(request).decode(request.encode(version), version), self.context(version, listener)
        )
        if isinstance(answer, PendingResponse):
            answer = given(answer)
        return over_the_wire(answer, version)

    def forwarded(self, row: Row, principal: str, by: str = BROKER) -> Any:
        """The same in an Envelope: the answer inside, or that around it where nothing is inside."""
        self.principal = by
        _, request, version = self.request(row, "CONTROLLER")
        frame = encode_request_header(row.api_key, version, 1, "client") + request.encode(version)
        principal_data = encode_principal(Principal(principal))
        sent = EnvelopeRequest(
            request_data=frame,
            request_principal=principal_data,
            client_host_address=bytes([127, 0, 0, 1]),
        )
        answer = envelope.handle(
            EnvelopeRequest.decode(sent.encode(0), 0), self.context(0, "CONTROLLER")
        )
        answer = over_the_wire(given(answer) if isinstance(answer, PendingResponse) else answer, 0)
        if answer.error_code:
            return answer
        data = bytes(answer.response_data)
        _, at = decode_response_header(row.api_key, version, data)
        return response_type(row.api_key).decode(data[at:], version)


def given(pending: PendingResponse) -> Any:
    said: list[Any] = []
    pending.attach(said.append)
    if not said:
        assert pending.expire is not None, "an answer that does not come"
        said.append(pending.expire())
    return said[0]


def rows() -> list[tuple[str, Row]]:
    """Each with the kind of listener that it is asked at."""
    special = {row.api_key for row in CONTROLLERS}
    of_controllers = [*CONTROLLERS, *(row for row in CLIENTS if row.api_key not in special)]
    found = [("PLAINTEXT", row) for row in CLIENTS] + [
        ("CONTROLLER", row) for row in of_controllers
    ]
    return [(listener, row) for listener, row in found if row.api_key in LISTENERS[listener]()]


ROWS = [
    pytest.param(
        listener, row, id=f"{listener.lower()}-{LISTENERS[listener]()[row.api_key].name}-{number}"
    )
    for number, (listener, row) in enumerate(rows())
]
FORWARDED = [
    one
    for one in ROWS
    if one.values[0] == "CONTROLLER" and getattr(one.values[1], "api_key", -1) in FORWARDABLE
]


def is_refused(row: Row, answer: Any) -> bool:
    if row.hidden is not None:
        return row.hidden not in str(answer.to_json(type(answer).VERSIONS[-1]))
    errors = set(errors_of(answer))
    assert not errors & AUTHORIZATION_ERRORS - {29, 30, 31, 53}, errors
    return bool(errors & AUTHORIZATION_ERRORS)


@pytest.mark.parametrize("listener", LISTENERS)
def test_every_api_has_a_row_or_a_reason_for_none(listener: str) -> None:
    known: Mapping[int, Any] = {row.api_key: row for where, row in rows() if where == listener}
    missing = [
        h.name
        for key, h in LISTENERS[listener]().items()
        if key not in {*known, *NO_QUESTION, *REFUSED_TO_ALL}
    ]
    assert missing == []


@pytest.mark.parametrize(("listener", "row"), ROWS)
def test_authorized_request_is_not_refused(listener: str, row: Row) -> None:
    ways = [row.needs, *((one,) for one in row.instead)]
    for needs in ways:
        world = SecuredWorld()
        world.allow(*needs)
        assert not is_refused(row, world.answer(row, listener, USER)), needs
    assert not is_refused(row, SecuredWorld().answer(row, listener, ADMIN))


@pytest.mark.parametrize(("listener", "row"), ROWS)
def test_unauthorized_request_is_refused(listener: str, row: Row) -> None:
    world = SecuredWorld()
    answer = world.answer(row, listener, ANONYMOUS)
    assert is_refused(row, answer)
    if row.hidden is None and len(row.needs) == 1:
        assert row.refused in errors_of(answer)
    acts_for_cluster = cluster("CLUSTER_ACTION") in (row.needs, row.instead)
    assert is_refused(row, world.answer(row, listener, BROKER)) is not acts_for_cluster


@pytest.mark.parametrize(("listener", "row"), ROWS)
def test_each_permission_of_a_row_is_necessary(listener: str, row: Row) -> None:
    for missing in row.needs:
        without = SecuredWorld()
        without.allow(*(need for need in row.needs if need != missing))
        assert is_refused(row, without.answer(row, listener, USER)), missing
        about_others = SecuredWorld()
        about_others.allow(
            *(need for need in row.needs if need != missing), (missing[0], missing[1], "another")
        )
        assert is_refused(row, about_others.answer(row, listener, USER)), missing
        denied = SecuredWorld()
        denied.allow(*row.needs)
        denied.allow((missing[0], missing[1], "*"), permission=DENY)
        assert is_refused(row, denied.answer(row, listener, USER)), missing


@pytest.mark.parametrize(("listener", "row"), FORWARDED)
def test_forwarded_request_is_authorized_as_the_clients(listener: str, row: Row) -> None:
    world = SecuredWorld()
    assert is_refused(row, world.forwarded(row, ANONYMOUS))
    assert is_refused(row, world.forwarded(row, BROKER)) is (row.needs != cluster("CLUSTER_ACTION"))
    world.allow(*row.needs)
    assert not is_refused(row, world.forwarded(row, USER))
    assert not is_refused(row, SecuredWorld().forwarded(row, ADMIN))


@pytest.mark.parametrize(("listener", "row"), FORWARDED)
def test_forwarder_without_cluster_action_is_refused_for_any_principal_inside(
    listener: str, row: Row
) -> None:
    world = SecuredWorld()
    before = dict(world.image.topics)
    for by in (ANONYMOUS, USER):
        assert dict(errors_of(world.forwarded(row, ADMIN, by))) == {31: 1}
    assert world.image.topics == before


@pytest.mark.parametrize("api_key", REFUSED_TO_ALL)
def test_unserved_request_is_answered_alike_with_and_without_permissions(api_key: int) -> None:
    handler = handlers()[api_key]
    fields: dict[str, Any] = {}
    if api_key == 0:
        fields = {
            "acks": 1,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": b""}]}],
        }
        fields["topic_data"][0] |= (
            {"topic_id": METADATA_TOPIC_ID} if handler.versions[-1] >= 13 else {}
        )
    if api_key == 21:
        fields = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 1}]}]}
    if api_key in (77, 89):
        fields = {"group_ids": ["g"]}
    if api_key == 90:
        fields = {"groups": [{"group_id": "g", "topics": None}]}
    if api_key == 28:
        fields = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]}
    row, world = Row(api_key, (), fields), SecuredWorld()
    answers = [world.answer(row, "PLAINTEXT", principal) for principal in (ANONYMOUS, ADMIN)]
    assert answers[0] == answers[1] and errors_of(answers[0])
