"""Requests and files that name epochs which no election has reached."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.base.leader_epochs import OUT_OF_REACH
from kwire.protocol import ErrorCode
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import CLUSTER_ID, cluster, lone_node
from tests.hostile.quorum_rows import EPOCH_MAX
from tests.hostile.test_quorum_apis import NEWEST, outcome
from tests.hostile.voter_requests import VoterRequests, spoil
from tests.waiting import until_async


def test_row_35_requests_of_epochs_out_of_reach_raise_none(tmp_path: Path) -> None:
    """``epoch + 1`` of the last epoch would be negative, and no election could follow it."""

    async def main() -> None:
        async with cluster(tmp_path) as three:
            await three.start()
            leader = await three.leader()
            before = leader.raft.epoch
            for node in three.nodes.values():
                asker = VoterRequests(node, CLUSTER_ID)
                for sender in (9, 1 if node.raft.node_id == 2 else 2):
                    for epoch in (before + 20_000, EPOCH_MAX):
                        vote = spoil(asker.vote(candidate=sender), replica_epoch=epoch)
                        begin = spoil(asker.begin(leader=sender), leader_epoch=epoch)
                        end = spoil(asker.end_epoch(leader=sender), leader_epoch=epoch)
                        for message in (vote, begin, end):
                            error = await outcome(node, message, NEWEST[message.API_KEY or 0])
                            assert error == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert await leader.create("orders") == 0
            assert {node.raft.epoch for node in three.nodes.values()} == {before}
            assert leader.quorum.controller.is_active

    run(main)


def test_node_with_the_last_epoch_on_disk_leads_again_after_a_restart(tmp_path: Path) -> None:
    """As an earlier release left it, which believed each epoch."""

    async def main() -> None:
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            await node.create("orders")
        path = tmp_path / "__cluster_metadata-0" / "quorum-state"
        state = json.loads(path.read_bytes())
        path.write_text(json.dumps({**state, "leaderEpoch": EPOCH_MAX}), encoding="utf-8")
        for _ in range(2):
            async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
                assert OUT_OF_REACH // 2 < node.raft.epoch < OUT_OF_REACH
                await until_async(lambda: "orders" in node.topics, "the topic")
            _check_quorum_state(tmp_path)

    run(main)


def _check_quorum_state(data_dir: Path) -> None:
    state = json.loads((data_dir / "__cluster_metadata-0" / "quorum-state").read_bytes())
    assert 0 <= state["leaderEpoch"] <= EPOCH_MAX


def test_vote_of_an_unknown_id_in_a_later_epoch_costs_only_an_election(tmp_path: Path) -> None:
    """It may be a voter by a record that the node does not have yet (KIP-853)."""

    async def main() -> None:
        async with lone_node(tmp_path, cluster_id=CLUSTER_ID) as node:
            await node.create("orders")
            epoch = node.raft.epoch
            assert await outcome(node, VoterRequests(node, CLUSTER_ID).vote(epoch=7), 2) == 0
            await until_async(
                lambda: node.raft.epoch > epoch + 6 and node.quorum.controller.is_active,
                "an election",
            )
            assert await node.create("payments") == 0

    run(main)
