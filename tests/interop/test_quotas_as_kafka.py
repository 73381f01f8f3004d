"""Kafka's broker and kwire's throttle the same requests under the same quotas, equally long.

Quotas are set by ``kafka-configs``. Every request has a connection of its own, because a throttled
one is muted. Throttle times are compared in steps of 20 s: the time that the machine takes between
two requests makes them shorter by as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from kwire.message import Message
from kwire.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest
from kwire.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol import ErrorCode
from kwire.records import Record, encode_batch
from tests.interop.clients import need_java
from tests.waiting import until
from tools import java_tools
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop

CONFIGS: Final = "kafka.admin.ConfigCommand"
TOPIC: Final = "data"
CLIENT_ID: Final = "wire-client"
#: Bytes of a second, and the bytes of a record: 40 seconds of the quota.
QUOTA: Final = 100
SIZE: Final = 4000
STEP_MS: Final = 20_000


class Side:
    """One of the servers."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._number = 0

    def call(self, request: Message, version: int) -> Any:
        """Ask over a new connection."""
        with WireClient(self._bootstrap) as client:
            return client.call(request, version)

    def configs(self, *arguments: str) -> str:
        return java_tools.run_tool(CONFIGS, ["--bootstrap-server", self._bootstrap, *arguments])

    def quota(self, client_id: str | None = CLIENT_ID, **values: float | None) -> None:
        """Set or remove quotas of a client id, and wait until the server obeys them: until it
        shows a change that was made when it showed this one.
        """
        for name, changes in (
            (client_id, values),
            ("later", {"producer_byte_rate": self._later()}),
        ):
            self._alter(name, changes)
            until(lambda name=name, changes=changes: self._shows(name, changes))  # type: ignore[misc]

    def _later(self) -> float:
        self._number += 1
        return float(self._number)

    def _alter(self, client_id: str | None, values: Mapping[str, float | None]) -> None:
        ops = [
            OpData(key=key, value=value or 0, remove=value is None) for key, value in values.items()
        ]
        entity = [EntityData(entity_type="client-id", entity_name=client_id)]
        answer = self.call(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)]), 1)
        assert answer.entries[0].error_code == 0

    def _shows(self, client_id: str | None, values: Mapping[str, float | None]) -> bool:
        component = ComponentData(
            entity_type="client-id", match_type=0 if client_id else 1, match=client_id
        )
        answer = self.call(DescribeClientQuotasRequest(components=[component], strict=True), 1)
        shown = {one.key: one.value for entry in answer.entries or () for one in entry.values}
        return all(shown.get(key) == value for key, value in values.items())

    def create(self, name: str, partitions: int, version: int = 7) -> tuple[str, int]:
        """The error, and the throttle time."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = self.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), version)
        return ErrorCode(answer.topics[0].error_code).name, answer.throttle_time_ms

    def produce(self) -> tuple[str, int]:
        """Append a batch of one record; the error, and the throttle time."""
        batch = encode_batch([Record(offset=0, timestamp=0, value=bytes(SIZE))])
        data = TopicProduceData(
            name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
        answer = self.call(ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[data]), 9)
        error = answer.responses[0].partition_responses[0].error_code
        return ErrorCode(error).name, answer.throttle_time_ms

    def fetch(self) -> tuple[bool, int]:
        """Whether there were records, and the throttle time."""
        one = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1,
            session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, partitions=[one])],
        )
        answer = self.call(request, 12)
        found = any(data.records for topic in answer.responses for data in topic.partitions)
        return found, answer.throttle_time_ms

    def leader(self) -> int:
        topic = MetadataRequestTopic(name=TOPIC)
        answer = self.call(MetadataRequest(topics=[topic]), 12)
        return int(answer.topics[0].partitions[0].leader_id)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kafka and kwire."""
    need_java()
    own = ["--process-roles", "broker,controller"]
    own += ["--data-dir", str(tmp_path_factory.mktemp("node") / "data")]
    with kafka() as cluster, gateway(*own) as server:
        found = Side(cluster.nodes[0].broker_address), Side(server.bootstrap)
        for side in found:
            assert side.create(TOPIC, 1) == ("NONE", 0)
            until(lambda side=side: side.leader() >= 0)  # type: ignore[misc]
        yield found


def steps(found: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """The answers with their throttle times in whole steps, rounded up."""
    return [(what, -(-throttle_ms // STEP_MS)) for what, throttle_ms in found]


def producing(side: Side) -> list[tuple[Any, int]]:
    side.quota(producer_byte_rate=QUOTA)
    found = steps([side.produce() for _ in range(4)])
    # A higher quota counts for what was measured already; without one nothing is throttled.
    side.quota(producer_byte_rate=QUOTA * 1000)
    found += steps([side.produce()])
    side.quota(producer_byte_rate=None)
    return [*found, *steps([side.produce()])]


def fetching(side: Side) -> list[tuple[Any, int]]:
    found = steps([side.fetch()])
    side.quota(consumer_byte_rate=QUOTA)
    found += steps([side.fetch() for _ in range(3)])
    side.quota(consumer_byte_rate=None)
    return [*found, *steps([side.fetch()])]


def changing_partitions(side: Side) -> list[tuple[Any, int]]:
    # 11 windows of a second: 11 tokens at first, and 1 a second.
    side.quota(controller_mutation_rate=1)
    found = [side.create("a", 10), side.create("b", 110), side.create("c", 1)]
    found.append(side.create("d", 100, version=5))
    found.append(side.create("e", 1))
    gone = side.call(DeleteTopicsRequest(topic_names=["a"], timeout_ms=60_000), 5)
    found.append((ErrorCode(gone.responses[0].error_code).name, gone.throttle_time_ms))
    side.quota(controller_mutation_rate=None)
    gone = side.call(DeleteTopicsRequest(topic_names=["a"], timeout_ms=60_000), 5)
    return steps([*found, (ErrorCode(gone.responses[0].error_code).name, gone.throttle_time_ms)])


def by_precedence(side: Side) -> list[tuple[Any, int]]:
    """The quota of a client id counts before that of all."""
    side.quota(None, producer_byte_rate=1)
    side.quota(producer_byte_rate=10**9)
    found = steps([side.produce()])
    side.quota(producer_byte_rate=None)
    found += steps([side.produce()])
    side.quota(None, producer_byte_rate=None)
    return [(what, bool(throttled)) for what, throttled in found]


@pytest.mark.parametrize("case", [producing, fetching, changing_partitions, by_precedence])
def test_requests_are_throttled_as_by_kafka(
    sides: tuple[Side, Side], case: Callable[[Side], list[Any]]
) -> None:
    of_kafka, of_kwire = (case(side) for side in sides)
    assert of_kwire == of_kafka
    assert any(throttled for _, throttled in of_kafka)


def test_kafka_configs_sets_and_describes_quotas_by_the_letter(sides: tuple[Side, Side]) -> None:
    said = [_described(side) for side in sides]
    assert said[1] == said[0]
    assert "producer_byte_rate=1024.0" in said[0][0]


def _described(side: Side) -> list[str]:
    """Set quotas, remove one of them, and return what the tool shows."""
    users = ["--alter", "--entity-type", "users"]
    both = ["--entity-name", "ann", "--entity-type", "clients", "--entity-name", "app"]
    describe = ["--describe", "--entity-type", "users", *both]
    side.configs(*users, "--entity-default", "--add-config", "request_percentage=200")
    rates = "producer_byte_rate=1024,consumer_byte_rate=2048,controller_mutation_rate=10"
    side.configs(*users, *both, "--add-config", rates)
    until(lambda: "consumer_byte_rate" in side.configs(*describe))
    side.configs(*users, *both, "--delete-config", "consumer_byte_rate")
    until(lambda: "consumer_byte_rate" not in side.configs(*describe))
    return [
        side.configs(*describe),
        side.configs("--describe", "--entity-type", "users", "--entity-default"),
    ]
