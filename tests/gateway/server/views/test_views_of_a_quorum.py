"""Views of a live quorum: every node has the same records at the same offsets, and a consumer that
moves among nodes that are killed and restarted sees each record once.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from gateway.config.config import Config
from gateway.ports.view_topics import CHANGES, VIEW_TOPICS, VIEWS, view_topic
from gateway.server.quorum import log_cleaner as keep_log
from gateway.sources.snapshot_generator import SnapshotGenerator
from kwire.cluster import view_offsets as offsets
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol import ErrorCode
from kwire.records import Record
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import Cluster, OwnNode, cluster, lone_node
from tests.gateway.views.view_reading import (
    Table,
    created,
    of_changes,
    records_from,
    state,
    take,
    take_change,
)
from tests.waiting import PATIENCE_S, until_async

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
    return records_from(found.records, offset)


async def read_to_end(node: OwnNode, view: str, end: int, start: int = 0) -> list[Record]:
    """All records from ``start`` to ``end``, exclusive."""
    found, position = list[Record](), start
    with trio.fail_after(PATIENCE_S):
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
            changed: dict[str, Table] = {}
            for record in first[CHANGES]:
                take_change(changed, record)
            assert of_changes(changed) == expected
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
                with trio.fail_after(PATIENCE_S):
                    while len(found) < len(names):
                        node = chance.choice(list(three.nodes.values()))
                        records, position = await fetched(node, "topics", position)
                        found += created(records)
                if step % 2:
                    await three.start(killed)
            assert [json.loads(one.key or b"")["name"] for one in found] == names, "each once"
            await three.leader()
            await three.all(lambda node: set(names) <= node.topics)
            end = found[-1].offset + 1
            for node in three.nodes.values():
                assert created(await read_to_end(node, "topics", end)) == found

    run(main)


class MixedCluster(Cluster):
    """Node 1 keeps the log from offset 0; the others begin at their newest snapshot."""

    def __init__(self, nursery: trio.Nursery, directory: Path) -> None:
        super().__init__(nursery, directory, 3, {"metadata_max_idle_interval_ms": 0})
        self.holds_snapshots = False  # no node writes one
        self.names: list[str] = []  # of the topics that were created

    def config(self, id: int) -> Config:
        """A snapshot after a few changes, and nothing older than the newest one; node 1 without."""
        config = super().config(id)
        if id == 1:
            return config
        return replace(
            config,
            metadata_log_max_record_bytes_between_snapshots=400,
            metadata_log_segment_bytes=1024,
            metadata_max_retention_bytes=0,
        )

    async def restart(self, id: int, *, empty: bool) -> None:
        """Kill a node, create topics at the others, and start it, with ``empty`` without its data.

        While node 1 is away, no node writes a snapshot: it would delete records that node 1 lacks.
        """
        self.holds_snapshots = id == 1
        await self.nodes.pop(id).cut_off()
        if empty:
            shutil.rmtree(self.config(id).data_dir)  # type: ignore[arg-type]
        leader = await self.leader(*self.nodes)
        for _ in range(6):
            self.names.append(f"t{len(self.names)}")
            assert await leader.create(self.names[-1]) == 0
        await self.start(id)
        await self.leader()
        await self.all(lambda node: node.log.high_watermark >= leader.log.high_watermark)
        self.holds_snapshots = False


def start_of(node: OwnNode) -> int:
    """The first offset of the views."""
    views = node.ready.services.views
    assert views is not None
    return views.partition(view_topic(CHANGES)).log_start_offset


def test_nodes_from_offset_0_and_from_snapshots_have_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes are killed and restarted, some with a new data directory; a consumer moves among
    them.
    """
    monkeypatch.setattr(keep_log, "_CHECK_S", 0.05)
    chance, due = random.Random(18), SnapshotGenerator.due

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            three = MixedCluster(nursery, tmp_path)
            monkeypatch.setattr(
                SnapshotGenerator,
                "due",
                lambda *given: not three.holds_snapshots and due(*given),
            )
            await three.start()
            found, position = list[Record](), 0
            for killed, empty in ((2, False), (3, True), (1, False), (2, True)):
                await three.leader()
                await three.restart(killed, empty=empty)
                with trio.fail_after(PATIENCE_S):
                    while len(found) < len(three.names):
                        node = chance.choice(list(three.nodes.values()))
                        records, position = await fetched(node, "topics", position)
                        found += created(records)
                names = [json.loads(one.key or b"")["name"] for one in found]
                assert names == three.names, "each once"
            await until_async(
                lambda: max(map(start_of, three.nodes.values())) > 0,
                "the views of a node begin with a snapshot",
            )
            three.holds_snapshots = True
            await trio.sleep(0.2)  # one that is being written makes the views start later
            end = max(node.log.high_watermark for node in three.nodes.values())
            await three.all(lambda node: node.log.high_watermark >= end)
            await compare(three, offsets.at(end))
            nursery.cancel_scope.cancel()

    run(main)


async def compare(three: MixedCluster, end: int) -> None:
    """Assert that all nodes have the same records below ``end``, from the start that each has."""
    assert start_of(three.nodes[1]) == 0
    starts = {id: start_of(node) for id, node in three.nodes.items()}
    assert max(starts.values()) > 0, "one that took over the whole log may not have cleaned it"
    for view in VIEWS:
        whole = await read_to_end(three.nodes[1], view, end)
        for id in (2, 3):
            part = await read_to_end(three.nodes[id], view, end, starts[id])
            behind = offsets.at(offsets.log_offset(starts[id]) + 1)
            assert [one for one in part if one.offset >= behind] == [
                one for one in whole if one.offset >= behind
            ]
            if view != CHANGES:
                one, other = dict[str, str](), dict[str, str]()
                for table, records in ((one, whole), (other, part)):
                    for record in records:
                        take(table, record)
                assert one == other, (view, id)
