"""A change as JSON: who, what, where; nothing that was set; and it stays small and printable
whatever a client sends.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.controller.apis import named_resources
from gateway.ports.services import Forwarder, Requester
from gateway.views.audit import RESOURCES_MAX, TEXT_MAX, Change, audit_value
from kwire.message import Message
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

ALICE = Requester("User:alice", "10.0.0.7", "admin-1", listener="CLIENTS")
TIME = "2026-11-21T14:03:07.512Z"


def topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in names])


def value(request: Message, requester: Requester = ALICE, **more: Any) -> bytes:
    change = Change(
        request, 7, requester, node_id=1, leader_epoch=5, offset=30, last_offset=33, time_ms=1
    )
    return audit_value(change, TIME, named_resources(request), **more)


def test_audit_value_has_every_member() -> None:
    assert json.loads(value(topics("orders"))) == {
        "time": TIME,
        "api": "CreateTopics",
        "version": 7,
        "principal": "User:alice",
        "host": "10.0.0.7",
        "client_id": "admin-1",
        "token_authenticated": False,
        "listener": "CLIENTS",
        "forwarder": None,
        "node_id": 1,
        "leader_epoch": 5,
        "offset": 30,
        "last_offset": 33,
        "records": 4,
        "resources": [{"type": "TOPIC", "name": "orders"}],
        "resources_in_all": 1,
    }


def test_the_node_that_passed_it_on() -> None:
    node = Forwarder("User:node", "10.0.1.2", "raft-client-2")
    told = json.loads(
        value(topics("a"), Requester("User:bob", "::1", None, True, "CONTROLLER", node))
    )
    assert told["forwarder"] == {
        "principal": "User:node",
        "host": "10.0.1.2",
        "client_id": "raft-client-2",
    }
    assert (told["principal"], told["client_id"], told["token_authenticated"]) == (
        "User:bob",
        None,
        True,
    )


def test_a_gap_before_it() -> None:
    assert "not_recorded_before" not in json.loads(value(topics("a")))
    assert json.loads(value(topics("a"), not_recorded=3))["not_recorded_before"] == 3


def test_resources_are_counted_beyond_the_first_ones() -> None:
    told = json.loads(value(topics(*(f"t{number}" for number in range(1000)))))
    assert [one["name"] for one in told["resources"]] == [
        f"t{number}" for number in range(RESOURCES_MAX)
    ]
    assert told["resources_in_all"] == 1000


@given(st.text(), st.text(), st.none() | st.text(), st.lists(st.text(), max_size=30))
def test_audit_value_is_one_printable_line_for_any_names(
    principal: str, host: str, client_id: str | None, names: list[str]
) -> None:
    data = value(topics(*names), Requester(principal, host, client_id))
    assert data.isascii() and data.decode().isprintable()
    told = json.loads(data)
    assert (told["principal"], told["client_id"]) == (principal, client_id)


def test_it_stays_small() -> None:
    long = "\N{SNOWMAN}" * 30_000
    requester = Requester(long, long, long, False, "CLIENTS", Forwarder(long, long, long))
    data = value(topics(*(f"{number}{long}" for number in range(100))), requester)
    assert len(data) < 6 * TEXT_MAX * (RESOURCES_MAX + 7)
    assert json.loads(data)["principal"] == long[: TEXT_MAX - 1] + "…"
