"""Deleted topics, deleted groups and closed connections leave no objects and no reference
cycles.
"""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path

import trio

from gateway.handlers.context import Context
from gateway.ports.pending_response import PendingResponse
from gateway.server.clients.connection import Connection
from kwire.message import Struct
from kwire.messages.delete_groups_request import DeleteGroupsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import OwnNode, cluster, lone_node
from tests.waiting import until_async

#: One that can be read, with one topic, and one that is cut off.
SUBSCRIPTIONS = (b"\0\0\0\0\0\1\0\1x\xff\xff\xff\xff", b"\0\0\0\0\0\1\0\7")
#: Created and deleted in one round.
_TOPICS = 30


async def churn(node: OwnNode, count: int, *, groups: bool = True) -> None:
    for number in range(count):
        name = f"churned-{number}"
        assert await node.create(name, timeout_ms=600_000) == 0
        doomed = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=600_000)
        assert (await node.ask(doomed, 6)).responses[0].error_code == 0
        if groups:
            await join_and_leave(node, name, SUBSCRIPTIONS[number % len(SUBSCRIPTIONS)])


async def join_and_leave(node: OwnNode, group_id: str, subscription: bytes) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=subscription)
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=600_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    member_id = (await node.ask(join, 3)).member_id
    leave = LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)])
    assert (await node.ask(leave, 3)).members[0].error_code == 0
    assert (await node.ask(DeleteGroupsRequest(groups_names=[group_id]), 1)).results[
        0
    ].error_code == 0


def held() -> Counter[str]:
    """Number of messages, structs, contexts and connections, by type."""
    kept = (Struct, Context, Connection)
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, kept))


async def check_nothing_stays(node: OwnNode, *, groups: bool = True) -> None:
    await churn(node, 5, groups=groups)
    await trio.sleep(0.2)
    gc.collect()
    gc.disable()
    try:
        before = held()
        await churn(node, _TOPICS, groups=groups)
        await until_async(
            lambda: {name: count for name, count in (held() - before).items() if count >= 10},
            "the end of answered requests and closed connections, although deadlines are far",
            lambda grown: not grown,
        )
        cycles = [gc.collect()]
        # An election, or a connection that ends, leaves cycles by chance; a topic does each time.
        while cycles[-1] >= _TOPICS and len(cycles) < 3:
            await churn(node, _TOPICS, groups=groups)
            cycles.append(gc.collect())
    finally:
        gc.enable()
    assert min(cycles) < _TOPICS, (
        "each topic or group leaves reference cycles, which only a full pass of the collector finds"
    )


def test_deleted_topics_and_groups_leave_no_objects(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path, group_initial_rebalance_delay_ms=0) as node:
            await check_nothing_stays(node)

    run(main)


def test_deleted_topics_leave_no_objects_at_a_leader_with_followers(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as nodes:
            await nodes.start()
            await check_nothing_stays(await nodes.leader(), groups=False)

    run(main)


def test_answered_request_is_released_before_its_deadline() -> None:
    pending = PendingResponse(deadline=1e9, expire=lambda: (_ for _ in ()).throw(AssertionError))
    pending.on_cancel = lambda: None
    pending.attach(lambda response: None)
    pending.complete(DeleteGroupsRequest())
    assert pending.expire is pending.on_cancel is pending._deliver is None  # type: ignore[comparison-overlap]
