"""A broker throttles a client by a quota of its log, and counts what clients write and read."""

from __future__ import annotations

from pathlib import Path

from kwire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tests.gateway.server.broker.test_broker_node import (
    broker,
    consume,
    in_loop,
    produce,
    with_topic,
)


@in_loop
async def test_quota_of_the_log_throttles_the_next_fetch(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, bytes(5000))
        entity = [EntityData(entity_type="user", entity_name=None)]
        ops = [OpData(key="consumer_byte_rate", value=1, remove=False)]
        change = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)])
        assert (await node.ask(change, 1)).entries[0].error_code == 0
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        message = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[wanted])]
        )
        answer = await node.ask(message, 12)
        assert answer.responses == []
        # 5,000 bytes at one a second, less the windows that are measured.
        assert answer.throttle_time_ms > 4_000_000


@in_loop
async def test_metrics_count_what_clients_write_and_read_of_a_topic(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, bytes(5000))
        assert len(await consume(node)) == 1
        own = node.ready.services.source.broker
        assert own is not None
        of_topic = own.replicas.appended_by_topic["t"]
        assert (of_topic.produces, of_topic.fetches) == (1, 1)
        assert of_topic.bytes_out == of_topic.bytes == own.replicas.appended.bytes_out > 5000
        assert of_topic.replication_bytes_out == 0
