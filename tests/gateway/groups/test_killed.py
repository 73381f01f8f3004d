"""The whole server killed while clients commit: what was acknowledged is there, and members go on
as if nothing was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kwire
from tests.gateway.groups.script import subscription
from tests.gateway.handlers.world import build
from tools.gateway_process import launch, wait_until_ready
from tools.process import Process
from tools.wire_client import WireClient

TOPIC = "__cluster_metadata"


@contextmanager
def serving(directory: Path) -> Iterator[tuple[Process, WireClient]]:
    """A server with the state in that directory; killed at the end."""
    (directory / "output").unlink(missing_ok=True)  # of the server before, with its address
    began = time.monotonic()
    process = launch(directory, "--group-initial-rebalance-delay-ms", "0")
    try:
        server = wait_until_ready(process, 30, began)
        with WireClient(server.bootstrap) as client:
            yield process, client
    finally:
        process.kill()


def ask(client: WireClient, api: int, version: int, **fields: Any) -> Any:
    return client.call(build(kwire.request_type(api), fields), version)


def commit(client: WireClient, group_id: str, offset: int, **fields: Any) -> int:
    partition = {"partition_index": 0, "committed_offset": offset}
    answer = ask(
        client,
        8,
        9,
        group_id=group_id,
        topics=[{"name": TOPIC, "partitions": [partition]}],
        **fields,
    )
    return int(answer.topics[0].partitions[0].error_code)


def fetch(client: WireClient, group_id: str) -> int:
    wanted = [{"name": TOPIC, "partition_indexes": [0]}]
    answer = ask(client, 9, 9, groups=[{"group_id": group_id, "topics": wanted}])
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def test_commits_and_members_survive_kill_9(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, client):
        asked: dict[str, Any] = {
            "group_id": "g", "session_timeout_ms": 30_000, "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription([TOPIC])}],
        }  # fmt: skip
        member_id = ask(client, 11, 3, **asked).member_id
        assignments = [{"member_id": member_id, "assignment": b"everything"}]
        assert (
            ask(
                client,
                14,
                3,
                group_id="g",
                generation_id=1,
                member_id=member_id,
                assignments=assignments,
            ).error_code
            == 0
        )
        for offset in range(100):
            assert commit(client, "simple", offset) == 0
        assert commit(client, "g", 7, generation_id_or_member_epoch=1, member_id=member_id) == 0
        process.kill()

    with serving(tmp_path) as (_, client):
        assert (fetch(client, "simple"), fetch(client, "g"), fetch(client, "nobody")) == (99, 7, -1)
        assert (
            ask(client, 12, 3, group_id="g", generation_id=1, member_id=member_id).error_code == 0
        )
        synced = ask(client, 14, 3, group_id="g", generation_id=1, member_id=member_id)
        assert (synced.error_code, synced.assignment) == (0, b"everything")
        assert commit(client, "g", 8, generation_id_or_member_epoch=1, member_id=member_id) == 0
