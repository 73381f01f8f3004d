"""The document of ``/status``: its values, and that JSON can hold all of them."""

from __future__ import annotations

import json

from gateway.server.management.status import status
from gateway.server.quorum.quorum_status import SnapshotProgress
from tests.gateway.server.watched import FakePartition, empty_context, facts, quorum_status


def test_status_of_the_partition() -> None:
    assert status(facts())["partition"] == {
        "topic": "__cluster_metadata",
        "state": "ready",
        "log_start_offset": 10,
        "high_watermark": 500,
        "leader_epoch": 3,
        "newest_record": "2023-11-14T22:13:19Z",
        "size_bytes": 12_345,
        "log_dir": "/data",
    }


def test_status_of_the_quorum() -> None:
    quorum = quorum_status(
        snapshot=SnapshotProgress("x.checkpoint", 1, 2),
        problem="ctl2:9093 does not answer.",
        fetch_errors={"timeout": 3},
    )
    said = status(facts(quorum=quorum))["quorum"]
    assert (said["leader_id"], said["leader_address"], said["epoch"], said["voters"]) == (
        2,
        "ctl2:9093",
        7,
        [1, 2, 3],
    )
    assert (said["high_watermark"], said["own_high_watermark"], said["log_end_offset"]) == (
        503,
        500,
        504,
    )
    assert (said["lag_offsets"], said["lag_ms"], said["last_answer_s_ago"]) == (3, 400, 0.2)
    assert said["complete_since"] == "2023-11-14T22:12:40Z"
    assert said["snapshot"] == {
        "name": "x.checkpoint",
        "position": 1,
        "size": 2,
        "progress": "1 of 2 bytes, 50 %",
    }
    assert (said["problem"], said["fetch_errors"]) == ("ctl2:9093 does not answer.", {"timeout": 3})


def test_unknown_values_are_null() -> None:
    said = status(
        facts(
            FakePartition(newest_ms=None),
            quorum_status(last_answer_at=None, leader_high_watermark=-1),
        )
    )
    assert said["partition"]["newest_record"] is None
    assert (
        said["quorum"]["last_answer_s_ago"],
        said["quorum"]["lag_offsets"],
        said["quorum"]["snapshot"],
    ) == (None, None, None)
    assert status(facts())["quorum"] is None


def test_status_of_connections_and_requests() -> None:
    server_context = empty_context()
    fetch = server_context.counts.apis[1]
    fetch.run_sliced(0.001)
    fetch.run_sliced(0.003)
    fetch.waited(1)
    fetch.errors[1] += 5
    server_context.counts.connections["CLIENTS"] = 30
    server_context.counts.software.update({f"client/{number}": number for number in range(1, 31)})
    server_context.reports.counts["connection accepted"] = 31
    said = status(facts(server_context=server_context))
    assert said["requests"] == {
        "Fetch": {"count": 2, "mean_ms": 2.0, "waited": 1, "errors": {"OFFSET_OUT_OF_RANGE": 5}}
    }
    assert said["connections"]["open"] == {"PLAINTEXT": 0, "CLIENTS": 30}
    assert said["connections"]["accepted"] == 31
    assert list(said["connections"]["software"])[:2] == ["client/30", "client/29"]
    assert len(said["connections"]["software"]) == 20  # peers choose these names


def test_document_survives_json() -> None:
    told = facts(quorum=quorum_status(), problems=lambda: [OSError("gone")])
    assert json.loads(json.dumps(status(told))) == status(told)
    assert status(told)["problems"] == ["gone"]
