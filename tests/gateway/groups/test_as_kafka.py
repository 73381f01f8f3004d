"""The same requests to real Kafka and to us: the same answers, but for names that each makes up."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import kwire
from kwire.message import Struct
from tests.gateway.groups.script import subscription
from tests.gateway.handlers.world import build
from tools import java
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.wire_client import WireClient

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("java") is None, reason="Kafka needs java"),
]

_MEMBER_ID = re.compile("(.*)-[0-9a-f]{8}-[0-9a-f-]{27}")
JOIN, HEARTBEAT, LEAVE, SYNC, COMMIT, FETCH = 11, 12, 13, 14, 8, 9
DESCRIBE, LIST, DELETE, FORGET, FIND = 15, 16, 42, 47, 10


class Side:
    """One server, its topic, and the member ids that it gave, in their order."""

    def __init__(self, address: str, topic: str) -> None:
        self.address = address
        self.topic = topic
        self.ids: list[str] = []
        self.client = WireClient(address)
        self.parked: dict[str, tuple[threading.Thread, list[Any]]] = {}

    def ask(self, api: int, version: int, fields: Mapping[str, Any], *, park: str = "") -> Any:
        """The answer in comparable form; with ``park`` it is waited for later, on a connection of
        its own.
        """
        request = build(kwire.request_type(api), self._fill(fields))
        if park:
            got: list[Any] = []
            connection = WireClient(self.address)
            thread = threading.Thread(
                target=lambda: got.append(connection.call(request, version)), daemon=True
            )
            thread.start()
            self.parked[park] = thread, got
            time.sleep(
                0.3
            )  # it must have arrived before what comes next; nothing can be asked about it
            return None
        return self._plain(self.client.call(request, version))

    def released(self, park: str) -> Any:
        thread, got = self.parked.pop(park)
        thread.join(20)
        return self._plain(got[0])

    def _fill(self, value: Any) -> Any:
        """``#1`` is the first member id, ``TOPIC`` the topic."""
        if isinstance(value, str) and value.startswith("#"):
            return self.ids[int(value[1:]) - 1]
        if isinstance(value, Mapping):
            return {name: self._fill(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._fill(one) for one in value]
        return self.topic if value == "TOPIC" else value

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Struct):
            shown = {info.attr: self._plain(getattr(value, info.attr)) for info in value.fields()}
            return {
                n: v
                for n, v in shown.items()
                if n not in ("throttle_time_ms", "error_message", "host", "port", "node_id")
            }
        if isinstance(value, list):
            return sorted((self._plain(one) for one in value), key=repr)
        if isinstance(value, str):
            if made := _MEMBER_ID.fullmatch(value):
                if value not in self.ids:
                    self.ids.append(value)
                return f"{made[1]}#{self.ids.index(value) + 1}"
            return "TOPIC" if value == self.topic else value
        return value


class Both:
    def __init__(self, *sides: Side) -> None:
        self.sides = sides

    def ask(self, api: int, version: int, park: str = "", **fields: Any) -> Any:
        kafkas, kwires = (
            side.ask(
                api, version, {"group_id": "g", **fields} if _has_group(api) else fields, park=park
            )
            for side in self.sides
        )
        assert kwires == kafkas
        return kwires

    def released(self, park: str) -> Any:
        kafkas, kwires = (side.released(park) for side in self.sides)
        assert kwires == kafkas
        return kwires

    def join(self, version: int, member_id: str = "", park: str = "", **fields: Any) -> Any:
        asked = {
            "session_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": protocols("range"),
            **fields,
        }
        if version >= 1:
            asked.setdefault("rebalance_timeout_ms", 30_000)
        return self.ask(JOIN, version, park, member_id=member_id, **asked)

    def sync(
        self, version: int, member_id: str, generation: int, park: str = "", **fields: Any
    ) -> Any:
        if version >= 5:
            fields = {"protocol_type": "consumer", "protocol_name": "range", **fields}
        return self.ask(
            SYNC, version, park, member_id=member_id, generation_id=generation, **fields
        )

    def commit(
        self,
        version: int,
        offset: int,
        *,
        partition: int = 0,
        topic: str = "TOPIC",
        metadata: str | None = "m",
        **fields: Any,
    ) -> Any:
        said = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_metadata": metadata,
        }
        return self.ask(COMMIT, version, topics=[{"name": topic, "partitions": [said]}], **fields)


def _has_group(api: int) -> bool:
    return (
        any(info.attr == "group_id" for info in kwire.request_type(api).fields()) and api != FETCH
    )


def protocols(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "metadata": subscription(["__cluster_metadata", "t"])} for name in names]


def assign(**members: bytes) -> list[dict[str, Any]]:
    return [{"member_id": f"#{name[1:]}", "assignment": data} for name, data in members.items()]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with kafka() as cluster, gateway("--group-initial-rebalance-delay-ms", "0") as kwires:
        cluster.tool(java.TOPICS, ["--create", "--topic", "t"])
        # The first question makes the topic of offsets.
        finder = WireClient(cluster.bootstrap)
        ask = build(kwire.request_type(FIND), {"coordinator_keys": ["g"]})
        for _ in range(100):
            answer: Any = finder.call(ask, 6)
            if answer.coordinators[0].error_code == 0:
                break
            time.sleep(0.1)
        sides = Side(cluster.bootstrap, "t"), Side(kwires.bootstrap, "__cluster_metadata")
        both = Both(*sides)
        for _ in range(100):  # and its coordinator loads
            if (
                both.sides[0].ask(FETCH, 8, {"groups": [{"group_id": "x", "topics": None}]})[
                    "groups"
                ][0]["error_code"]
                == 0
            ):
                break
            time.sleep(0.1)
        yield both


def test_the_life_of_a_group(both: Both) -> None:
    """Each part begins with the group as the one before it left it."""
    what_makes_no_member(both)
    commits_of_no_member(both)
    one_member(both)
    another_one_wants_in(both)
    two_members(both)
    what_is_said_of_a_group(both)
    the_members_leave(both)


def what_makes_no_member(b: Both) -> None:
    for version in range(10):
        assert b.join(version, group_id="")["error_code"] == 24
        assert b.join(version, session_timeout_ms=5)["error_code"] == 26
        assert b.join(version, member_id="x-1")["error_code"] == 25
        assert b.join(version, protocols=[])["error_code"] == 23
    for version in range(6):
        b.sync(version, "x-1", 1)
        b.ask(
            LEAVE,
            version,
            **({"members": [{"member_id": "x-1"}]} if version >= 3 else {"member_id": "x-1"}),
        )
    for version in range(5):
        b.ask(HEARTBEAT, version, member_id="x-1", generation_id=1)


def commits_of_no_member(b: Both) -> None:
    for version in range(2, 10):
        # A group that no request created: Kafka keeps one that a refused JoinGroup named, for a
        # while.
        b.commit(version, 1, group_id="new", generation_id_or_member_epoch=1, member_id="x-1")
        b.commit(version, 2, group_id="simple")
        b.commit(version, 2, group_id="simple", topic="nowhere")
        b.commit(version, 2, group_id="simple", partition=9)
        b.commit(version, 2, group_id="simple", metadata="x" * 5000)
        b.commit(version, 2, group_id="simple", metadata=None)


def one_member(b: Both) -> None:
    assert b.join(9)["error_code"] == 79
    assert b.join(9, "#1")["generation_id"] == 1
    b.commit(9, 5, generation_id_or_member_epoch=1, member_id="#1")
    b.join(9, "#1")
    b.sync(5, "#1", 1, protocol_name="other")
    b.sync(5, "#1", 2)
    b.sync(5, "#1", 1, assignments=assign(m1=b"all"))
    b.commit(9, 5, generation_id_or_member_epoch=1, member_id="#1")
    b.commit(9, 5)
    b.commit(9, 5, member_id="#1")
    b.commit(9, 5, generation_id_or_member_epoch=0, member_id="#1")
    b.ask(HEARTBEAT, 4, member_id="#1", generation_id=1)
    b.ask(HEARTBEAT, 4, member_id="#1", generation_id=2)


def another_one_wants_in(b: Both) -> None:
    b.join(9, protocols=protocols("sticky"))
    b.join(9, protocol_type="connect")
    b.join(4)
    b.join(4, "#2", park="second")
    b.ask(HEARTBEAT, 4, member_id="#1", generation_id=1)
    b.sync(5, "#1", 1)
    for version in range(7):
        b.ask(DESCRIBE, version, groups=["g", "simple", "nobody"])


def two_members(b: Both) -> None:
    b.join(9, "#1")
    b.released("second")
    b.sync(3, "#2", 2, park="second")
    b.sync(5, "#1", 2, assignments=assign(m1=b"x", m2=b"y"))
    b.released("second")
    b.join(9, "#2")
    b.sync(5, "#2", 2)


def what_is_said_of_a_group(b: Both) -> None:
    for version in range(7):
        b.ask(DESCRIBE, version, groups=["g"])
    for version in range(6):
        b.ask(LIST, version)
    b.ask(LIST, 5, states_filter=["stable"], types_filter=["Classic"])
    b.ask(LIST, 5, states_filter=["Empty"])
    b.ask(LIST, 5, types_filter=["consumer"])


def the_members_leave(b: Both) -> None:
    b.ask(FORGET, 0, topics=[{"name": "TOPIC", "partitions": [{"partition_index": 0}]}])
    b.ask(DELETE, 2, groups_names=["g", "nobody"])
    b.ask(LEAVE, 5, members=[{"member_id": "#2"}, {"member_id": "x-1"}])
    b.ask(LEAVE, 2, member_id="#1")
    b.ask(DESCRIBE, 6, groups=["g"])
    b.ask(LIST, 5)


def test_offset_fetch_is_answered_as_by_kafka(both: Both) -> None:
    b = both
    b.commit(9, 7, group_id="offsets")
    for version in range(1, 8):
        for name in ("TOPIC", "nowhere"):
            b.ask(
                FETCH,
                version,
                group_id="offsets",
                topics=[{"name": name, "partition_indexes": [0, 1]}],
            )
            b.ask(
                FETCH, version, group_id="nobody", topics=[{"name": name, "partition_indexes": [0]}]
            )
        if version >= 2:
            b.ask(FETCH, version, group_id="offsets", topics=None)
            b.ask(FETCH, version, group_id="nobody", topics=None)
    for version in (8, 9):
        wanted = [
            {"name": "TOPIC", "partition_indexes": [0, 1]},
            {"name": "nowhere", "partition_indexes": [0]},
        ]
        groups = [
            {"group_id": "offsets", "topics": wanted},
            {"group_id": "nobody", "topics": None},
        ]
        b.ask(FETCH, version, groups=groups)
        b.ask(FETCH, version, groups=groups, require_stable=True)
    outsider = kwire.Uuid(b"\7" * 16)
    b.ask(
        FETCH,
        10,
        groups=[
            {"group_id": "offsets", "topics": [{"topic_id": outsider, "partition_indexes": [0]}]}
        ],
    )
    b.ask(
        COMMIT,
        10,
        group_id="offsets",
        topics=[
            {"topic_id": outsider, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
        ],
    )
    for name, partition in (("TOPIC", 0), ("TOPIC", 3), ("nowhere", 0)):
        for group_id in ("offsets", "nobody", ""):
            b.ask(
                FORGET,
                0,
                group_id=group_id,
                topics=[{"name": name, "partitions": [{"partition_index": partition}]}],
            )
    for version in range(3):
        b.commit(9, 7, group_id="offsets")
        b.ask(DELETE, version, groups_names=["offsets", "nobody"])


def test_static_members(both: Both) -> None:
    b = both
    for version in (8, 9):
        group: dict[str, Any] = {"group_id": f"static-{version}"}
        base = len(b.sides[0].ids)
        first, second, third = (f"#{base + n}" for n in (1, 2, 3))
        b.join(version, group_instance_id="one", **group)
        b.sync(
            5,
            first,
            1,
            group_instance_id="one",
            assignments=[{"member_id": first, "assignment": b"x"}],
            **group,
        )
        b.join(version, group_instance_id="one", **group)
        b.sync(5, second, 1, group_instance_id="one", **group)
        b.sync(5, first, 1, group_instance_id="one", **group)
        b.ask(HEARTBEAT, 4, member_id=first, generation_id=1, group_instance_id="one", **group)
        b.ask(HEARTBEAT, 4, member_id=second, generation_id=1, group_instance_id="two", **group)
        b.ask(HEARTBEAT, 4, member_id=second, generation_id=1, group_instance_id="one", **group)
        b.commit(
            9,
            3,
            generation_id_or_member_epoch=1,
            member_id=first,
            group_instance_id="one",
            **group,
        )
        b.join(version, second, group_instance_id="one", **group)
        b.join(version, group_instance_id="one", **group)
        b.sync(5, third, 2, group_instance_id="one", **group)
        b.ask(DESCRIBE, 6, groups=[group["group_id"]])
        leavers = [("", "two"), (second, "one"), ("", "one"), (third, "one")]
        b.ask(
            LEAVE,
            5,
            members=[{"member_id": m, "group_instance_id": i} for m, i in leavers],
            **group,
        )


def test_find_coordinator_is_answered_as_by_kafka(both: Both) -> None:
    for version in range(7):
        keys: dict[str, Any] = {"coordinator_keys": ["g", ""]} if version >= 4 else {"key": "g"}
        both.ask(FIND, version, **keys)
