"""Stock clients read every view of a stored Kafka log, and follow a view of a live quorum; Kafka's
tools describe the topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.ports.view_topics import CHANGES, VIEWS, view_topic
from gateway.views.encode import ViewEncoder
from tests.gateway.views.view_reading import opened, view_records
from tests.interop.clients import GROUP, WAYS, Way, need_clients
from tests.interop.conftest import READ
from tests.interop.reading import Record, digest, first_difference
from tests.interop.session import Decision, read_with_every_client
from tests.shared import needs_shared
from tests.waiting import PATIENCE_S
from tools.gateway_process import gateway

pytestmark = needs_shared

#: A log with every kind of change.
_LOG = "p-one-basic"
#: One view is read in both modes; the others in groups.
_IN_GROUPS = tuple(way for way in WAYS if way.mode == GROUP)


def expected_records(
    directory: Path, view: str, cluster_id: str, *, schemas: bool = False
) -> list[Record]:
    """The view's records as the fold gives them without a server."""
    encoder = ViewEncoder(cluster_id, schemas=schemas)
    return [
        Record(one.offset, one.timestamp, one.key, one.value)
        for one in view_records(opened(directory), view, encoder)
    ]


@pytest.fixture(scope="module")
def read(logs: Any) -> Iterator[dict[str, tuple[list[Record], dict[Way, Decision]]]]:
    need_clients()
    directory = logs(_LOG) / "nodes/1/__cluster_metadata-0"
    found = {}
    with gateway("--source", "log", "--log-dir", str(directory)) as server:
        for view in VIEWS:
            expected = expected_records(directory, view, server.ready["cluster_id"])
            assert expected, view
            ways = WAYS if view == CHANGES else _IN_GROUPS
            count = len(expected)
            outcomes = read_with_every_client(
                server.bootstrap, view_topic(view), count, lambda: 0, ways
            )
            found[view] = expected, outcomes
        yield found


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_client_reads_every_record_of_a_view(
    read: dict[str, tuple[list[Record], dict[Way, Decision]]], view: str, way: Way
) -> None:
    expected, outcomes = read[view]
    if way not in outcomes:
        assert view != CHANGES, "both modes read the same records; one view shows it"
        return
    decision = outcomes[way]
    assert not decision.error
    assert not first_difference(decision.records, expected)
    if decision.committed is not None:
        assert decision.committed > expected[-1].offset
    READ.append((view_topic(view), str(way), len(decision.records), digest(decision.records)))


def test_clients_follow_a_view_of_a_live_quorum(tmp_path: Path) -> None:
    need_clients()
    # A broker would create the topic of its groups when the clients come.
    options = ("--process-roles", "controller", "--data-dir", str(tmp_path / "data"))
    with gateway(*options) as server:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": server.bootstrap})

        def created(*names: str) -> int:
            for future in admin.create_topics([NewTopic(name, 3, 1) for name in names]).values():
                future.result(PATIENCE_S)
            return 2 * len(names)  # at first without partitions

        count = created("orders", "payments")
        outcomes = read_with_every_client(
            server.bootstrap,
            view_topic("topics"),
            count,
            lambda: created("refunds") + deleted(admin, "orders"),
        )
        for way, decision in outcomes.items():
            assert not decision.error, way
            told = [
                (json.loads(one.key or b"")["name"], one.value is None) for one in decision.records
            ]
            assert sorted(told[:4]) == [*2 * [("orders", False)], *2 * [("payments", False)]], way
            assert told[4:] == [*2 * [("refunds", False)], ("orders", True)], way
        assert len({digest(one.records) for one in outcomes.values()}) == 1
        names = set(admin.list_topics(timeout=PATIENCE_S).topics)
        assert names == {"__cluster_metadata", "__cluster_metadata_audit", "payments", "refunds"}
        by_name = admin.list_topics(view_topic("topics"), timeout=PATIENCE_S).topics
        assert by_name.keys() == {view_topic("topics")}


def deleted(admin: Any, name: str) -> int:
    for future in admin.delete_topics([name]).values():
        future.result(PATIENCE_S)
    return 1
