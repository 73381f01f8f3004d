"""Two workers behind one port: reads, changes, groups, authorization, metrics and shutdown."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import trio

from gateway.config.config import Listener
from gateway.ports.services import AUDIT_TOPIC, AUDIT_TOPIC_ID
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from tests.gateway.server.guarded import log_in
from tests.gateway.server.harness import Client, run
from tests.gateway.server.workers.served_workers import (
    CONNECTIONS,
    ask,
    close,
    create,
    fetch,
    latest,
    served_workers,
)
from tests.waiting import until_async
from tools.kafka_security import PLAIN_MODULE

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_every_connection_reads_and_changes_one_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients = await served.connections()
            for number, client in enumerate(clients):
                assert await create(client, f"topic-{number}") == ErrorCode.NONE
                answer = await ask(client, MetadataRequest(topics=_names(clients[: number + 1])), 9)
                assert answer.topics[number].error_code == ErrorCode.NONE
            assert await create(clients[0], "topic-1") == ErrorCode.TOPIC_ALREADY_EXISTS
            end = await latest(clients[0])
            logs = {bytes((await fetch(client)).records) for client in clients}
            assert len({log[: min(map(len, logs))] for log in logs}) == 1
            for client in clients:
                answer = await ask(client, MetadataRequest(topics=_names(clients)), 9)
                while any(topic.error_code for topic in answer.topics):  # the worker applies them
                    answer = await ask(client, MetadataRequest(topics=_names(clients)), 9)
                assert [node.port for node in answer.brokers] == [served.port]
                assert await latest(client) >= end
            status = await served.status()
            shares = [worker["connections"]["PLAINTEXT"] for worker in status["workers"]]
            assert all(shares) and sum(shares) == CONNECTIONS, shares
            assert status["connections"]["open"]["PLAINTEXT"] == CONNECTIONS
            assert status["requests"]["CreateTopics"]["count"] == CONNECTIONS + 1
            assert await served.metric("kwire_connections_accepted_total") == CONNECTIONS
            assert await served.metric("kwire_worker_ready") == 2
            await close(clients)

    run(main)


def _names(clients: list[Client]) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=f"topic-{number}") for number in range(len(clients))]


def test_offset_of_one_worker_is_in_range_at_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients = await served.connections()
            for number in range(60):
                await create(clients[0], f"topic-{number}")
                end = await latest(clients[number % CONNECTIONS])
                for client in clients[number % 4 :: 4]:
                    answer = await fetch(client, end)
                    assert answer.error_code == ErrorCode.NONE
                    assert await latest(client) >= end
            beyond = await fetch(clients[0], end + 1_000_000)
            assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            await close(clients)

    run(main)


def test_audit_topic_is_the_same_at_every_worker(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients = await served.connections()
            for number in range(5):
                assert await create(clients[0], f"topic-{number}") == ErrorCode.NONE
            await until_async(
                partial(latest, clients[0], AUDIT_TOPIC), "five audit entries", lambda end: end >= 5
            )
            end = await latest(clients[0], AUDIT_TOPIC)
            for client in clients:
                assert await latest(client, AUDIT_TOPIC) == end
                answer = await fetch(client, 0, AUDIT_TOPIC_ID)
                assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, end)
                assert b"topic-4" in bytes(answer.records)
            await close(clients)

    run(main)


async def join(client: Client, member: str = "") -> Any:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    asked = JoinGroupRequest(
        group_id="group",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return await ask(client, asked, 5)


def test_members_of_a_group_are_at_different_workers(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path, group_initial_rebalance_delay_ms=1000) as served:
            clients = await served.connections(12)
            ids = [(await join(client)).member_id for client in clients]
            joined: dict[int, Any] = {}

            async def join_as(number: int) -> None:
                joined[number] = await join(clients[number], ids[number])

            async with trio.open_nursery() as nursery:
                for number in range(12):
                    nursery.start_soon(join_as, number)
            assert {one.generation_id for one in joined.values()} == {1}
            assert len({one.leader for one in joined.values()}) == 1
            leader = next(n for n, one in joined.items() if one.leader == one.member_id)
            assert sorted(one.member_id for one in joined[leader].members) == sorted(ids)

            async def sync(number: int) -> None:
                shares = [
                    SyncGroupRequestAssignment(member_id=one, assignment=one.encode())
                    for one in ids
                ]
                asked = SyncGroupRequest(
                    group_id="group",
                    generation_id=1,
                    member_id=ids[number],
                    assignments=shares if number == leader else [],
                )
                answer = await ask(clients[number], asked, 3)
                assert bytes(answer.assignment) == ids[number].encode()

            async with trio.open_nursery() as nursery:
                for number in range(12):
                    nursery.start_soon(sync, number)
            for number, client in enumerate(clients):
                beat = HeartbeatRequest(group_id="group", generation_id=1, member_id=ids[number])
                assert (await ask(client, beat, 3)).error_code == ErrorCode.NONE
                await commit(client, 100 + number, ids[number])
                for other in clients[::5]:
                    assert await committed(other) == 100 + number
            await close(clients)

    run(main)


async def commit(client: Client, offset: int, member: str = "", generation: int = 1) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    asked = OffsetCommitRequest(
        group_id="group",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[topic],
    )
    answer = await ask(client, asked, 7)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def committed(client: Client) -> int:
    topic = OffsetFetchRequestTopic(name=CLUSTER_METADATA_TOPIC, partition_indexes=[0])
    answer = await ask(client, OffsetFetchRequest(group_id="group", topics=[topic]), 5)
    return int(answer.topics[0].partitions[0].committed_offset)


def test_acls_see_the_principal_of_a_client_at_any_worker(tmp_path: Path) -> None:
    users = f'{PLAIN_MODULE} required user_admin="a" user_bob="b";'

    async def main() -> None:
        async with served_workers(
            tmp_path,
            listeners=(Listener("SASL", "127.0.0.1", 0), Listener("CONTROLLER", "127.0.0.1", 0)),
            listener_security_protocol_map={"SASL": "SASL_PLAINTEXT", "CONTROLLER": "PLAINTEXT"},
            authorizer_class_name=STANDARD,
            super_users="User:admin;User:ANONYMOUS",
            security={
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": users,
            },
        ) as served:
            admins, bobs = await served.connections(10), await served.connections(10)
            for number, (admin, bob) in enumerate(zip(admins, bobs, strict=True)):
                assert (await log_in(admin, b"\0admin\0a")).error_code == 0
                assert (await log_in(bob, b"\0bob\0b")).error_code == 0
                assert await create(admin, f"topic-{number}") == ErrorCode.NONE
                denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                assert await create(bob, f"other-{number}") == denied
                assert (await join(bob)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
                assert (await join(admin)).error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED
            status = await served.status()
            assert all(worker["connections"]["SASL"] for worker in status["workers"])
            await close([*admins, *bobs])

    run(main)


def test_stop_drains_all_workers(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_workers(tmp_path) as served:
            clients, pid = await served.connections(), served.pid()
            waiting: list[Any] = []
            ids = [(await join(client)).member_id for client in clients[:2]]

            async def join_and_wait(number: int) -> None:
                waiting.append(await join(clients[number], ids[number]))

            async with trio.open_nursery() as nursery:
                for number in range(2):
                    nursery.start_soon(join_and_wait, number)
                await until_async(lambda: bool(waiting))
            third = (await join(clients[2])).member_id
            async with trio.open_nursery() as nursery:

                async def joining() -> None:
                    waiting.append(await join(clients[2], third))

                nursery.start_soon(joining)
                await trio.sleep(0.3)
                served.stop.set()
                await served.ready.ended.wait()
            assert len(waiting) == 3, "the third JoinGroup waits for the others, and is answered"
            for client in clients:
                assert await client.closed() == b""
            await until_async(lambda: not os.path.exists(f"/proc/{pid}"))

    run(main)
