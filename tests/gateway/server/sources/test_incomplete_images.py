"""Nodes whose image lacks a committed record: they lead no more, say why, and serve the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.quorum.events import Propose
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.topic_record import TopicRecord
from kwire.protocol import ErrorCode
from kwire.records import encode_metadata_record
from kwire.uuid import Uuid
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import OwnNode, cluster, lone_config, lone_node, own_node
from tests.gateway.server.sources.test_controller_node import metric, page
from tests.gateway.sources.metadata_files import UNKNOWN_TYPE, UNKNOWN_VERSION
from tests.waiting import until_async

#: Records that no image of this release can have; ``test_batch_fold`` has every kind.
RECORDS = {
    "unknown type": UNKNOWN_TYPE,
    "unknown version": UNKNOWN_VERSION,
    "level above the newest": encode_metadata_record(
        FeatureLevelRecord(name="metadata.version", feature_level=60), 0
    ),
    "second topic of a name": encode_metadata_record(
        TopicRecord(name="orders", topic_id=Uuid(bytes([1]) * 16)), 0
    ),
}


def commit(leader: OwnNode, value: bytes) -> None:
    """Have a leader commit a record that its controller did not decide."""
    leader.driver.submit(Propose(1 << 40, leader.raft.epoch, [[value]]))


async def refuses(node: OwnNode, offset: int) -> None:
    """Wait until the node says what it lacks, and require that it decides on nothing."""
    await until_async(lambda: node.quorum.loader.lacks, "the image lacks the record")
    await until_async(lambda: node.raft.role == "unattached", "the node has resigned")
    assert not node.quorum.controller.is_active
    assert await node.create("refused") == ErrorCode.NOT_CONTROLLER
    assert await metric(node, "kwire_image_incomplete") == {"": 1}
    assert await metric(node, "kwire_ready") is not None
    ready = (await page(node, "/readyz")).decode()
    assert "must not lead" in ready or "lacks a part of the log" in ready
    assert node.log.high_watermark > offset, "readers get the record"


@pytest.mark.parametrize("kind", RECORDS)
def test_lone_voter_whose_image_lacks_a_record_resigns_and_stays_so_over_a_restart(
    tmp_path: Path, kind: str
) -> None:
    more = {"management_listener": "127.0.0.1:0"}

    async def main() -> None:
        async with lone_node(tmp_path / "data", **more) as node:
            assert await node.create("orders") == 0
            offset = node.raft.log.end_offset
            commit(node, RECORDS[kind])
            await refuses(node, offset)
            assert set(node.topics) == {"orders"}
        async with own_node(lone_config(tmp_path / "data", **more)) as node:
            await refuses(node, offset)

    run(main)


def test_node_whose_image_is_whole_leads_in_place_of_one_whose_image_is_not(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as three:
            await three.start()
            leader = await three.leader()
            leader.quorum.loader.lacks = "a record that only this node lacks"
            leader.quorum.controller.image_advanced()
            others = [id for id in three.nodes if three.nodes[id] is not leader]
            await until_async(lambda: not leader.quorum.controller.is_active, "it resigns")
            successor = await three.leader(*others)
            assert successor is not leader
            await until_async(lambda: leader.raft.leader_id == successor.raft.node_id, "it follows")
            assert await leader.create("orders") == 0

    run(main)


def test_level_that_is_lowered_again_lets_the_node_lead(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data") as node:
            level = node.quorum.image.metadata_version
            values = [
                encode_metadata_record(
                    FeatureLevelRecord(name="metadata.version", feature_level=one), 0
                )
                for one in (60, level)
            ]
            for value in values:
                commit(node, value)
            end = node.raft.log.end_offset
            await until_async(
                lambda: node.quorum.controller.is_active and node.quorum.image.next_offset > end,
                "it leads",
            )
            assert await node.create("orders") == 0

    run(main)
