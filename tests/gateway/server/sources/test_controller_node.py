"""Whole nodes of an own quorum in one process: elections, changes through every node, hand-over,
metrics.
"""

from __future__ import annotations

import errno
import re
from functools import partial
from pathlib import Path

import pytest
import trio

from gateway.config.config import ConfigError
from gateway.log.files.errors import SyncFailed
from gateway.ports.services import State
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from tests.gateway.server.harness import run
from tests.gateway.server.management.http_client import Client as HttpClient
from tests.gateway.server.own_nodes import OwnNode, cluster, lone_config, lone_node
from tests.waiting import until_async


async def page(node: OwnNode, path: str) -> bytes:
    assert node.ready.management is not None
    stream = await trio.open_tcp_stream("127.0.0.1", node.ready.management.port)
    async with stream:
        return (await HttpClient(stream).get(path)).body


async def metric(node: OwnNode, name: str) -> dict[str, float]:
    """Values of a metric by its labels."""
    text = (await page(node, "/metrics")).decode()
    return {
        labels: float(value)
        for labels, value in re.findall(rf"^{name}(?:{{(.*?)}})? (\S+)$", text, re.MULTILINE)
    }


def states(values: dict[str, float]) -> list[str]:
    return [re.sub(r'state="(.*)"', r"\1", labels) for labels, value in values.items() if value]


# --- one node


def test_quorum_of_one_leads_at_once_and_keeps_changes(tmp_path: Path) -> None:
    async def main() -> None:
        # So long that nothing but leading at once is waited for.
        patient = {
            "controller_quorum_fetch_timeout_ms": 600_000,
            "controller_quorum_election_timeout_ms": 600_000,
        }
        async with lone_node(tmp_path / "data", **patient) as node:
            assert await node.create("orders") == 0
            await until_async(lambda: "orders" in node.topics)
            shown, epoch = node.log.high_watermark, node.raft.epoch
            cluster_id = node.log.cluster_id
        async with lone_node(tmp_path / "data") as node:
            assert node.raft.epoch > epoch, "never leader of the same epoch again"
            assert node.log.high_watermark > shown
            assert node.log.cluster_id == cluster_id
            await until_async(lambda: "orders" in node.topics)
            assert await node.create("orders") == 36, "TOPIC_ALREADY_EXISTS"

    run(main)


def test_quorum_of_one_has_metrics_and_status(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data", management_listener="127.0.0.1:0") as node:
            await node.create("orders")
            assert states(await metric(node, "kafka_server_raft_metrics_current_state")) == [
                "leader"
            ]
            assert await metric(node, "kafka_server_raft_metrics_current_leader") == {"": 1}
            assert await metric(node, "kafka_server_raft_metrics_number_of_voters") == {"": 1}
            # The leader may append a NoOpRecord before or after a scrape; the metric has it when it
            # is written.
            before = node.log.high_watermark
            [end] = (await metric(node, "kafka_server_raft_metrics_log_end_offset")).values()
            assert before <= end <= node.raft.log.end_offset
            before = node.raft.measures.appended_records
            [total] = (
                await metric(node, "kafka_server_raft_metrics_append_records_total")
            ).values()
            assert before <= total <= node.raft.measures.appended_records
            for name in ("commit_latency_avg", "commit_latency_max", "election_latency_max"):
                [value] = (await metric(node, f"kafka_server_raft_metrics_{name}")).values()
                assert value >= 0
            ready = await page(node, "/readyz")
            assert b'"ready": true' in ready

    run(main)


def test_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data"):
            pass
        with pytest.raises(BaseExceptionGroup) as caught:
            async with lone_node(tmp_path / "data", node_id=2):
                pass
        [error] = _leaves(caught.value)
        assert isinstance(error, ConfigError)
        assert "data.dir" in str(error) and "node 1" in str(error)

    run(main)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]


def test_directory_in_use_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data"):
            with pytest.raises(BaseExceptionGroup) as caught:
                async with lone_node(tmp_path / "data"):
                    pass
            assert all(isinstance(error, ConfigError) for error in _leaves(caught.value))

    run(main)


def test_reading_the_configuration_formats_nothing(tmp_path: Path) -> None:
    assert lone_config(tmp_path).source_kind == "own"
    assert not (tmp_path / "meta.properties").exists(), (
        "nothing is formatted by looking at the configuration"
    )


# --- three nodes


def test_three_nodes_elect_a_leader_and_accept_changes_at_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, management_listener="127.0.0.1:0") as three:
            await three.start()
            leader = await three.leader()
            for id, node in three.nodes.items():
                assert await node.create(f"by-{id}") == 0
            assert await three.nodes[1].create("by-2") == 36, "TOPIC_ALREADY_EXISTS"
            await three.all(lambda node: node.topics == {"by-1", "by-2", "by-3"})
            await three.all(lambda node: node.log.state is State.READY)
            for node in three.nodes.values():
                leads = node is leader
                assert states(await metric(node, "kafka_server_raft_metrics_current_state")) == [
                    "leader" if leads else "follower"
                ]
                assert await metric(node, "kafka_server_raft_metrics_current_leader") == {
                    "": leader.raft.node_id
                }
                assert await metric(node, "kafka_server_raft_metrics_number_of_voters") == {"": 3}
                [appended] = (
                    await metric(node, "kafka_server_raft_metrics_append_records_total")
                ).values()
                assert (appended > 0) == leads
                [fetched] = (await metric(node, "kwire_upstream_fetched_records_total")).values()
                assert (fetched > 0) == (not leads)
                status = (await page(node, "/status")).decode()
                assert f'"leader_id": {leader.raft.node_id}' in status and '"ready": true' in status

    run(main)


def test_stopped_leader_hands_over_and_loses_no_change(tmp_path: Path) -> None:
    async def main() -> None:
        # So long that nothing but a hand-over is waited for.
        slow = {
            "controller_quorum_fetch_timeout_ms": 600_000,
            "controller_quorum_election_timeout_ms": 1000,
        }
        async with cluster(tmp_path, **slow) as three:
            await three.start()
            leader = await three.leader()
            assert await leader.create("before") == 0
            others = [id for id in three.nodes if three.nodes[id] is not leader]
            epoch = leader.raft.epoch
            async with trio.open_nursery() as nursery:
                nursery.start_soon(leader.stop)
                successor = await three.leader(*others)
            assert successor.raft.epoch == epoch + 1, "in the first round"
            for id in others:
                assert await three.nodes[id].create(f"after-{id}") == 0
            await until_async(lambda: "before" in successor.topics)

    run(main)


def test_request_without_a_leader_is_carried_out_by_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as three:
            await three.start()
            leader = await three.leader()
            others = [id for id in three.nodes if three.nodes[id] is not leader]
            await leader.cut_off()
            answers: list[int] = []

            async def create(id: int) -> None:
                answers.append(await three.nodes[id].create(f"by-{id}"))

            async with trio.open_nursery() as nursery:
                for id in others:
                    nursery.start_soon(create, id)
            # The connection to the dead leader fails, so the requests wait for the next one.
            assert answers == [0, 0]
            await until_async(
                lambda: all(
                    three.nodes[id].topics == {f"by-{one}" for one in others} for id in others
                )
            )

    run(main)


def test_request_times_out_without_a_majority(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as three:
            await three.start(1)
            node = three.nodes[1]
            assert node.log.state is State.LOADING
            assert await node.create("never", timeout_ms=200) == 7, "REQUEST_TIMED_OUT"
            await three.start(2)
            await three.leader(1, 2)
            assert await node.create("now") == 0
            await until_async(lambda: "now" in node.topics)

    run(main)


def test_killed_leader_follows_after_its_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as three:
            await three.start()
            leader = await three.leader()
            assert await leader.create("before") == 0
            first = leader.raft.node_id
            others = [id for id in three.nodes if id != first]
            shown = leader.log.high_watermark
            await leader.cut_off()
            await three.start(first)
            assert three.nodes[first].log.high_watermark >= shown, (
                "what was committed is shown at once"
            )
            successor = await three.leader()
            assert successor.raft.epoch > leader.raft.epoch
            assert await three.nodes[others[0]].create("after") == 0
            await three.all(lambda node: node.topics == {"before", "after"})

    run(main)


def test_leader_whose_disk_fails_stops_and_acknowledges_nothing(tmp_path: Path) -> None:
    def fails() -> int:
        raise SyncFailed(
            "sync", "a.log", OSError(errno.EIO, "Input/output error"), "look at the disk"
        )

    async def main() -> None:
        async with cluster(tmp_path) as three:
            await three.start()
            leader = await three.leader()
            others = [id for id in three.nodes if three.nodes[id] is not leader]
            leader.log.store.flush = fails
            answers: list[int] = []

            async def create() -> None:
                answers.append(await leader.create("lost", timeout_ms=1000))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(create)
                await leader.ready.ended.wait()
                nursery.cancel_scope.cancel()
            assert answers in ([], [7]), "no answer, or REQUEST_TIMED_OUT"
            [reason] = leader.stopped
            assert "Input/output error" in reason and "restart the process" in reason
            successor = await three.leader(*others)
            assert await successor.create("after") == 0

    run(main)


def test_every_node_describes_the_quorum(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as three:
            await three.start()
            leader = await three.leader()
            for node in three.nodes.values():
                told: list[DescribeQuorumResponse | str] = []
                node.quorum.describe(told.append)
                await until_async(partial(bool, told))
                [answer] = told
                assert isinstance(answer, DescribeQuorumResponse)
                partition = answer.topics[0].partitions[0]
                assert partition.leader_id == leader.raft.node_id
                assert sorted(voter.replica_id for voter in partition.current_voters) == [1, 2, 3]

    run(main)
