"""Views of a live quorum: every node has the same records at the same offsets, and a consumer that
moves among nodes that are killed and restarted sees each record once.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import trio

from gateway.view_topics import CHANGES, VIEW_TOPICS, view_topic
from gateway.views import offsets
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol import ErrorCode
from kwire.records import Record
from kwire.records.batch import decode_batches
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import OwnNode, cluster, lone_node
from tests.gateway.views.view_reading import Table, state, take

#: Errors after which a client tries again: the node has just started, or is behind.
_RETRIABLE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_OUT_OF_RANGE)


async def fetched(node: OwnNode, view: str, offset: int) -> tuple[list[Record], int]:
    """The records that one Fetch returns, and the next position."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 16)
    topic = FetchTopic(topic_id=VIEW_TOPICS[view_topic(view)], partitions=[asked])
    request = FetchRequest(max_wait_ms=50, min_bytes=1, max_bytes=1 << 16, topics=[topic])
    answer = await node.ask(request, 16)
    (found,) = answer.responses[0].partitions
    if found.error_code in _RETRIABLE:
        return [], offset
    assert found.error_code == 0
    batches = list(decode_batches(found.records))
    records = [
        record
        for batch in batches
        if not batch.header.is_control
        for record in batch.records
        if record.offset >= offset
    ]
    return records, max((batch.header.next_offset for batch in batches), default=offset)


async def read_to_end(node: OwnNode, view: str, end: int) -> list[Record]:
    """All records below ``end``, from the earliest offset on."""
    found, position = list[Record](), 0
    with trio.fail_after(20):
        while position < end:
            records, position = await fetched(node, view, position)
            found += records
    return [record for record in found if record.offset < end]


def test_view_is_the_image_and_survives_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path) as node:
            for name in ("a", "b"):
                assert await node.create(name) == 0
            image = node.quorum.image
            # At once: the node registers itself as a controller soon.
            end, expected = offsets.at(image.next_offset), state(image)
            first = {view: await read_to_end(node, view, end) for view in (CHANGES, "topics")}
            tables: dict[str, Table] = {}
            for view in expected:
                for record in await read_to_end(node, view, end):
                    take(tables.setdefault(view, {}), record)
            assert {view: tables.get(view, {}) for view in expected} == expected
            await node.cut_off()
        async with lone_node(tmp_path) as node:
            for view, records in first.items():
                assert await read_to_end(node, view, end) == records

    run(main)


def test_consumer_moves_among_nodes_that_are_killed_and_restarted(tmp_path: Path) -> None:
    chance = random.Random(16)

    async def main() -> None:
        async with cluster(tmp_path, 3) as three:
            await three.start()
            await three.leader()
            found, position, names = list[Record](), 0, list[str]()
            for step in range(6):
                killed = chance.choice(list(three.nodes))
                if step % 2:
                    await three.nodes.pop(killed).cut_off()
                leader = await three.leader(*three.nodes)
                names.append(f"t{step}")
                assert await leader.create(names[-1]) == 0
                with trio.fail_after(20):
                    while len(found) < len(names):
                        node = chance.choice(list(three.nodes.values()))
                        records, position = await fetched(node, "topics", position)
                        found += records
                if step % 2:
                    await three.start(killed)
            assert [json.loads(one.key or b"")["name"] for one in found] == names, "each once"
            await three.leader()
            await three.all(lambda node: set(names) <= node.topics)
            end = found[-1].offset + 1
            for node in three.nodes.values():
                assert await read_to_end(node, "topics", end) == found

    run(main)
