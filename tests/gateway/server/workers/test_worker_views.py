"""View topics with workers: each process makes its own batches, and all have the same record at the
same offset.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.config.config import Listener
from gateway.ports.view_topics import CHANGES, VIEW_TOPICS, VIEWS, view_topic
from gateway.views.encode import ViewEncoder
from kwire.cluster import view_offsets as offsets
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol import CLUSTER_METADATA_PARTITION, ErrorCode
from kwire.records import Record
from tests.gateway.server.harness import Client, run
from tests.gateway.server.workers.served_workers import (
    CONNECTIONS,
    ServedWorkers,
    ask,
    close,
    create,
    latest,
    served_workers,
)
from tests.gateway.views.view_reading import created, opened, records_from, view_records
from tests.shared import needs_shared


async def fetched(client: Client, view: str, position: int) -> tuple[list[Record], int]:
    """The records of one Fetch that waits a moment, and the next position."""
    partition = FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=VIEW_TOPICS[view_topic(view)], partitions=[partition])
    asked = FetchRequest(max_wait_ms=20, min_bytes=1, max_bytes=1 << 20, topics=[topic])
    found = (await ask(client, asked, 13)).responses[0].partitions[0]
    assert found.error_code == ErrorCode.NONE, (view, position)
    return records_from(found.records, position)


async def read(client: Client, view: str, end: int, start: int = 0) -> list[Record]:
    """All records from ``start`` to ``end``, exclusive."""
    found, position = list[Record](), start
    while position < end:
        records, position = await fetched(client, view, position)
        found += records
    return [record for record in found if record.offset < end]


async def each_worker(served: ServedWorkers, clients: Sequence[Client]) -> None:
    """Assert that some of the connections are at each of the processes."""
    shares: list[int] = []
    while sum(shares) < len(clients):
        workers = (await served.status())["workers"]
        shares = [worker["connections"].get("PLAINTEXT", 0) for worker in workers]
    assert all(shares), shares


def directory_of(served: ServedWorkers) -> Path:
    return Path(served.ready.services.partition.log_dir) / CLUSTER_METADATA_PARTITION


async def delete(client: Client, name: str) -> int:
    asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=20_000)
    return int((await ask(client, asked, 6)).responses[0].error_code)


def test_every_worker_has_the_same_record_at_the_same_offset(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients = await served.connections()
            await each_worker(served, clients)
            for number, client in enumerate(clients):
                assert await create(client, f"t{number}", partitions=3) == ErrorCode.NONE
            for number in range(0, CONNECTIONS, 3):
                assert await delete(clients[number], f"t{number}") == ErrorCode.NONE
            end = await latest(clients[0], view_topic(CHANGES))
            encoder = ViewEncoder(served.ready.services.partition.cluster_id)
            log = opened(directory_of(served))
            for view in VIEWS:
                expected = [one for one in view_records(log, view, encoder) if one.offset < end]
                assert view not in ("topics", "partitions") or len(expected) > CONNECTIONS
                for client in clients:
                    assert await read(client, view, end) == expected, view
            await close(clients)

    run(main)


def test_consumer_that_moves_between_workers_sees_each_record_once(tmp_path: Path) -> None:
    """No worker answers OFFSET_OUT_OF_RANGE to a position that another one has told."""
    chance = random.Random(17)

    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients = await served.connections()
            await each_worker(served, clients)
            found, names, position = list[Record](), list[str](), 0
            for number in range(30):
                names.append(f"t{number}")
                assert await create(chance.choice(clients), names[-1]) == ErrorCode.NONE
                end = await latest(chance.choice(clients), view_topic("topics"))
                for client in chance.sample(clients, 4):
                    await fetched(client, "topics", end)
                while len(found) < len(names):
                    records, position = await fetched(chance.choice(clients), "topics", position)
                    found += created(records)
            assert [json.loads(one.key or b"")["name"] for one in found] == names
            await close(clients)

    run(main)


@needs_shared
def test_workers_over_files_that_begin_at_a_snapshot_have_the_same_views(
    logs: Any, tmp_path: Path
) -> None:
    directory = logs("p-one-segments") / "nodes" / "7"
    more = {
        "source": "log",
        "data_dir": None,
        "log_dirs": (directory,),
        "state_dir": tmp_path / "state",
        "listeners": (Listener("PLAINTEXT", "127.0.0.1", 0),),
    }

    async def main() -> None:
        async with served_workers(tmp_path, **more) as served:
            clients = await served.connections()
            await each_worker(served, clients)
            log = opened(directory / CLUSTER_METADATA_PARTITION)
            assert log.snapshot_end > 0
            encoder = ViewEncoder(served.ready.services.partition.cluster_id)
            start, end = offsets.of_snapshot(log.snapshot_end), offsets.at(log.high_watermark)
            for view in (CHANGES, "topics", "configs"):
                expected = view_records(log, view, encoder)
                assert expected
                for client in clients:
                    assert await read(client, view, end, start) == expected, view
            await close(clients)

    run(main)
