"""Groups of a broker: their records are in the partitions of ``__consumer_offsets``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gateway.base.sizes import MIB
from gateway.base.wall_clock import wall_ms
from gateway.groups import Usage
from gateway.groups.events import (
    DeleteGroups,
    DescribeGroups,
    ListGroups,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol import ErrorCode
from tests.gateway.server.broker.test_broker_node import broker, in_loop, produce, unfenced
from tests.gateway.server.groups.group_driving import (
    commit,
    committed,
    fetch,
    join,
    long_commit,
    submit,
)
from tests.gateway.server.own_nodes import OwnNode
from tests.waiting import until_async

GROUPS = [f"g{number}" for number in range(40)]


async def coordinated(node: OwnNode, *groups: str) -> None:
    """Ask for the coordinators of groups until there are some, as clients do."""
    await unfenced(node)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups))
    while True:
        answer = await node.ask(request, 4)
        errors = {one.error_code for one in answer.coordinators}
        assert errors <= {ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE}
        if errors == {ErrorCode.NONE}:
            assert {one.node_id for one in answer.coordinators} == {node.quorum.raft.node_id}
            break
    driver = node.ready.services.groups
    for group in groups:
        await until_async(partial(_is_loaded, driver, group))


def _is_loaded(driver: Any, group: str) -> bool:
    return _error(driver, group) is ErrorCode.NONE


def _error(driver: Any, group: str) -> ErrorCode:
    waiter = submit(driver, fetch(group))
    if not waiter.results:
        return ErrorCode.NONE  # the coordinator works on it
    error: ErrorCode = waiter.results[0].groups[0].error
    return error


def log_sizes(data_dir: Path) -> list[int]:
    """Bytes of the segments of ``__consumer_offsets``."""
    return [path.stat().st_size for path in data_dir.glob("__consumer_offsets-?/*.log")]


async def commit_through(node: OwnNode, group: str, offset: int) -> int:
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    )
    answer = await node.ask(message, 8)
    error: int = answer.topics[0].partitions[0].error_code
    return error


async def fetch_through(
    node: OwnNode, *groups: str, require_stable: bool = False
) -> list[list[int]]:
    wanted = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in groups]
    request = OffsetFetchRequest(groups=wanted, require_stable=require_stable)
    answer = await node.ask(request, 8)
    assert [one.group_id for one in answer.groups] == list(groups)
    return [
        [part.committed_offset for topic in one.topics for part in topic.partitions]
        for one in answer.groups
    ]


@in_loop
async def test_committed_offsets_are_there_after_the_process_was_killed(tmp_path: Path) -> None:
    async with broker(tmp_path, offsets_topic_num_partitions=3) as node:
        await coordinated(node, *GROUPS)
        assert await node.create("t") == 0
        for number, group in enumerate(GROUPS):
            assert await commit_through(node, group, number) == 0
        assert await commit_through(node, "g1", 100) == 0
        sizes = log_sizes(tmp_path)
        assert len(sizes) == 3 and all(sizes)
        await node.cut_off()
    async with broker(tmp_path) as node:
        await coordinated(node, *GROUPS)
        found = await fetch_through(node, *GROUPS, "none")
        assert found == [[0], [100], *([number] for number in range(2, 40)), []]
        services = node.ready.services
        assert services.groups.usage.groups == 40
        driver: Any = services.groups
        listed = await submit(driver, ListGroups()).result()
        assert sorted(one.group_id for one in listed.groups) == sorted(GROUPS)
        assert driver.count_by_state() == {"Empty": 40}


@in_loop
async def test_result_for_many_groups_has_the_order_of_the_request(tmp_path: Path) -> None:
    async with broker(tmp_path, offsets_topic_num_partitions=2) as node:
        await coordinated(node, *GROUPS)
        driver: Any = node.ready.services.groups
        for group in GROUPS[::2]:
            await submit(driver, commit(5, group)).result()
        described = await submit(driver, DescribeGroups(tuple(GROUPS))).result()
        assert [one.group_id for one in described.groups] == GROUPS
        missing = [one.error for one in described.groups[1::2]]
        assert set(missing) == {ErrorCode.GROUP_ID_NOT_FOUND}
        many = OffsetFetch(tuple((group, None) for group in GROUPS * 30))
        fetched = await submit(driver, many).result()
        assert [one.group_id for one in fetched.groups] == GROUPS * 30
        deleted = await submit(driver, DeleteGroups(tuple(GROUPS))).result()
        expected = [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND] * 20
        assert list(deleted.errors) == expected
        assert not (await submit(driver, ListGroups()).result()).groups


@in_loop
async def test_requests_before_the_topic_exists_are_sent_to_a_coordinator(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await unfenced(node)
        driver: Any = node.ready.services.groups
        assert _error(driver, "g") is ErrorCode.NOT_COORDINATOR
        nameless = replace(join(), group_id="")
        assert submit(driver, nameless).results[0].error is ErrorCode.INVALID_GROUP_ID
        assert submit(driver, ListGroups()).results[0].groups == []
        assert "__consumer_offsets" not in node.topics


@in_loop
async def test_members_of_a_deleted_topic_are_told_and_join_the_next_one(tmp_path: Path) -> None:
    async with broker(
        tmp_path, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0
    ) as node:
        await coordinated(node, "g")
        driver: Any = node.ready.services.groups
        await submit(driver, commit(1)).result()
        await submit(driver, join()).result()
        waiting = submit(driver, join())
        deleted = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="__consumer_offsets")], timeout_ms=10_000
        )
        assert (await node.ask(deleted, 6)).responses[0].error_code == 0
        assert (await waiting.result()).error is ErrorCode.NOT_COORDINATOR
        assert driver.usage == Usage()
        await coordinated(node, "g")
        assert committed(await submit(driver, fetch()).result()) == []
        assert (await submit(driver, join()).result()).generation == 1


@in_loop
async def test_pending_offsets_are_there_after_the_process_was_killed(tmp_path: Path) -> None:
    in_transaction = TxnOffsetCommit(
        group_id="g",
        member_id="",
        instance_id=None,
        generation=-1,
        offsets=(OffsetToCommit("t", 0, 5, -1, ""),),
        producer_id=9,
        producer_epoch=0,
    )
    async with broker(tmp_path, offsets_topic_num_partitions=1) as node:
        await coordinated(node, "g")
        driver: Any = node.ready.services.groups
        await submit(driver, commit(1)).result()
        assert (await submit(driver, in_transaction).result()).errors == [ErrorCode.NONE]
        await node.cut_off()
    async with broker(tmp_path) as node:
        await coordinated(node, "g")
        driver = node.ready.services.groups
        assert await fetch_through(node, "g") == [[1]]
        assert await fetch_through(node, "g", require_stable=True) == [[-1]]
        driver.complete_transaction(9, 0, committed=True)
        driver.complete_transaction(9, 77, committed=False)  # a partition that is led elsewhere
        assert await fetch_through(node, "g", require_stable=True) == [[5]]


@in_loop
async def test_superseded_offsets_take_no_room_and_the_newest_stay(tmp_path: Path) -> None:
    options = {"offsets_topic_num_partitions": 1, "offsets_topic_segment_bytes": MIB}
    async with broker(tmp_path, **options) as node:
        await coordinated(node, "g", "once")
        driver: Any = node.ready.services.groups
        await submit(driver, commit(7, "once")).result()
        await submit(driver, long_commit(0)).result()
        before = sum(log_sizes(tmp_path))
        for offset in range(1, 15):
            await submit(driver, long_commit(offset)).result()
        assert sum(log_sizes(tmp_path)) > 14 * before
        own = node.ready.services.source.broker
        assert own is not None
        while await own.cleaner.clean_once(wall_ms()):
            pass
        # The active segment is not compacted.
        assert sum(log_sizes(tmp_path)) < 7 * before
        await submit(driver, commit(99)).result()
        await node.cut_off()
    async with broker(tmp_path) as node:
        await coordinated(node, "g", "once")
        driver = node.ready.services.groups
        assert committed(await submit(driver, fetch("once")).result()) == [7]
        found = committed(await submit(driver, fetch()).result())
        assert sorted(found) == [*[14] * 1_999, 99]


@in_loop
async def test_clients_do_not_write_the_topic_of_coordinators(tmp_path: Path) -> None:
    async with broker(tmp_path, offsets_topic_num_partitions=1) as node:
        await coordinated(node, "g")
        refused = await produce(node, b"v", topic="__consumer_offsets")
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
