"""Produce at a broker: each batch is appended or has an error of its own, and the response waits
for the slow ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.broker.produce.append_backlog import AppendBacklog
from gateway.broker.produce.validation import ProducedBatch, TopicRules
from gateway.handlers.apis import init_producer_id, produce
from gateway.handlers.table import handlers
from gateway.ports.pending_response import NO_RESPONSE, PendingResponse, WorkType
from gateway.ports.replicas import Appended
from gateway.ports.work import completed
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.broker.produce.batches import NOW_MS, produced
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, build, over_the_wire


@dataclass
class MemoryReplica:
    """``gateway.ports.replicas.WritablePartition`` that a test lets write."""

    rules: TopicRules = field(default_factory=TopicRules)
    until_committed: bool | None = None
    holds: bool = False
    appended: list[ProducedBatch] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    backlog: AppendBacklog = field(default_factory=lambda: AppendBacklog(1000))

    open: set[int] = field(default_factory=set)  # producers with a transaction
    verified: list[Any] = field(default_factory=list)

    def begin_verification(self, batch: ProducedBatch, *, bumps_epoch: bool = False) -> Any:
        return None if batch.header.producer_id in self.open else "asked"

    def append(
        self,
        batch: ProducedBatch,
        on_done: Callable[[Any], None],
        verification: Any = None,
        *,
        until_committed: bool = True,
    ) -> None:
        self.until_committed = until_committed
        self.verified.append(verification)
        offset = 10 * len(self.appended)
        self.appended.append(batch)
        self.waiting.append(lambda: on_done(Appended(offset, batch.log_append_time, 3)))
        if not self.holds:
            self.waiting.pop()()


@dataclass
class MemoryReplicas:
    """``gateway.ports.replicas.Replicas`` with one partition at each index but 9."""

    replica: MemoryReplica = field(default_factory=MemoryReplica)
    produced: int = 0
    refused: list[ErrorCode] = field(default_factory=list)

    def count_produce(self, partition: Any) -> None:
        self.produced += 1

    def count_refused(self, partition: Any, error: ErrorCode) -> None:
        self.refused.append(error)

    def find_writable(self, topic_id: Uuid, index: int) -> Any:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if index == 9 else self.replica


class BrokerWorld(OwnWorld):
    """A node with the topic ``t``."""

    def __init__(self) -> None:
        super().__init__()
        self.create("t", [NODE])
        self.replicas = MemoryReplicas()
        self.replica = self.replicas.replica

    @property
    def topic_id(self) -> Uuid:
        return self.quorum_image.topic_ids["t"]

    def produce(self, *data: bytes | bytearray | None, version: int = 13, **fields: Any) -> Any:
        """The answer to a request with these batches for partitions 0, 1 and so on of ``t``."""
        topic = {"topic_id": self.topic_id} if version >= 13 else {"name": "t"}
        partitions = [{"index": at, "records": one} for at, one in enumerate(data)]
        return self.answer(version, [{**topic, "partition_data": partitions}], **fields)

    def answer(self, version: int, topics: list[Any], **fields: Any) -> Any:
        handler = handlers()[produce.API_KEY]
        form = handler.request_type(version)
        wanted = {"acks": -1, "timeout_ms": 1000, "topic_data": topics, **fields}
        request = form.decode(build(form, wanted).encode(version), version)
        context = self.context(version)
        context.wall_ms = NOW_MS
        answer = handler.handle(request, context)
        return completed(answer) if isinstance(answer, WorkType) else answer


def parts(answer: Any, version: int = 13) -> list[Any]:
    return [
        part
        for topic in over_the_wire(answer, version).responses
        for part in topic.partition_responses
    ]


@pytest.mark.parametrize("version", produce.VERSIONS)
@pytest.mark.parametrize("acks", [-1, 1])
def test_batch_is_appended_and_answered_with_its_offset(version: int, acks: int) -> None:
    world, data = BrokerWorld(), produced(b"a", b"b")
    (part,) = parts(world.produce(data, version=version, acks=acks), version)
    assert (part.error_code, part.base_offset, part.log_append_time_ms) == (0, 0, -1)
    assert [batch.data for batch in world.replica.appended] == [data]


def test_each_partition_has_an_error_of_its_own() -> None:
    world, good = BrokerWorld(), produced(b"a")
    torn = bytes(good[:-1])
    answer = world.produce(good, torn, None, good)
    errors = [part.error_code for part in parts(answer)]
    assert errors == [0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, 0]
    assert world.replicas.refused == errors[1:3]
    assert len(world.replica.appended) == 2


def test_faults_of_records_are_named() -> None:
    world = BrokerWorld()
    world.replica.rules = TopicRules(compacted=True)
    (part,) = parts(world.produce(produced(b"a")))
    assert part.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in part.record_errors] == [0]
    assert "key" in part.error_message


def test_unknown_topics_and_partitions_and_those_of_the_server_are_refused() -> None:
    world, good = BrokerWorld(), produced(b"a")
    data = [{"index": 0, "records": good}]
    by_name = [
        {"name": name, "partition_data": data} for name in ("none", "__cluster_metadata", "t")
    ]
    errors = [part.error_code for part in parts(world.answer(12, by_name), 12)]
    assert errors == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
    ]
    by_id = [{"topic_id": Uuid(b"\x07" * 16), "partition_data": data}]
    assert parts(world.answer(13, by_id))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    ninth = [{"name": "t", "partition_data": [{"index": 9, "records": good}]}]
    assert parts(world.answer(12, ninth), 12)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_writing_needs_write() -> None:
    world = BrokerWorld()
    world.authorizer.forbidden.add(("WRITE", "TOPIC", "t"))
    (part,) = parts(world.produce(produced(b"a")))
    assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert world.replica.appended == []


@pytest.mark.parametrize(("acks", "is_to_be_committed"), [(-1, True), (1, False)])
def test_batch_is_to_be_committed_with_acks_all(acks: int, is_to_be_committed: bool) -> None:
    world = BrokerWorld()
    world.produce(produced(b"a"), acks=acks)
    assert world.replica.until_committed is is_to_be_committed


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_invalid(acks: int) -> None:
    world = BrokerWorld()
    (part,) = parts(world.produce(produced(b"a"), acks=acks))
    assert part.error_code == ErrorCode.INVALID_REQUIRED_ACKS and not world.replica.appended


def test_without_acks_there_is_no_response_and_an_error_closes_the_connection() -> None:
    world = BrokerWorld()
    assert world.produce(produced(b"a"), acks=0) is NO_RESPONSE
    assert world.produce(None, acks=0) is None
    assert len(world.replica.appended) == 1


def test_response_waits_until_the_last_batch_is_written() -> None:
    world = BrokerWorld()
    world.replica.holds = True
    pending = world.produce(produced(b"a"), produced(b"b"))
    assert isinstance(pending, PendingResponse)
    said: list[Any] = []
    pending.attach(said.append)
    world.replica.waiting[1]()
    assert said == []
    world.replica.waiting[0]()
    assert [part.base_offset for part in parts(said[0])] == [0, 10]


def test_batches_that_are_not_written_in_time_are_answered_as_timed_out() -> None:
    world = BrokerWorld()
    world.replica.holds = True
    pending = world.produce(produced(b"a"), produced(b"b"), timeout_ms=500)
    assert isinstance(pending, PendingResponse) and pending.deadline == 100.5
    world.replica.waiting[0]()
    said: list[Any] = []
    pending.attach(said.append)
    pending.try_expire()
    assert [part.error_code for part in parts(said[0])] == [0, ErrorCode.REQUEST_TIMED_OUT]
    world.replica.waiting[1]()  # later: no client waits for it any more


def test_large_requests_are_handled_in_slices() -> None:
    world = BrokerWorld()
    handler, version = handlers()[produce.API_KEY], 13
    form = handler.request_type(version)
    partitions = [{"index": at % 9, "records": produced(b"a")} for at in range(50)]
    topic = {"topic_id": world.topic_id, "partition_data": partitions}
    request = build(form, {"acks": 1, "topic_data": [topic]})
    answer = handler.handle(form.decode(request.encode(version), version), world.context(version))
    assert isinstance(answer, WorkType)
    assert len(world.replica.appended) < 10


class MemoryProducerIds:
    """``gateway.ports.replicas.ProducerIds``"""

    def __init__(self, *outcomes: int | ErrorCode) -> None:
        self.outcomes = list(outcomes)

    def allocate(self, on_done: Callable[[int | ErrorCode], None]) -> None:
        on_done(self.outcomes.pop(0))


def test_idempotent_producer_gets_an_id_with_epoch_0() -> None:
    world = BrokerWorld()
    world.producer_ids = MemoryProducerIds(4000, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = world.ask(init_producer_id, 5, transactional_id=None)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 4000, 0)
    answer = world.ask(init_producer_id, 5, transactional_id=None)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_transactional_producer_gets_no_id() -> None:
    world = BrokerWorld()
    world.producer_ids = MemoryProducerIds(4000)
    answer = world.ask(init_producer_id, 5, transactional_id="tx")
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert answer.producer_id == -1


# --- behind a slow disk
# ------------------------------------------------------------------------------------------------


def test_request_waits_while_the_backlog_is_full_and_goes_on_where_it_was() -> None:
    world = BrokerWorld()
    world.replica.backlog.add(1000)
    answer = world.produce(produced(b"a"), produced(b"b"))
    assert isinstance(answer, PendingResponse) and world.replica.appended == []
    delivered: list[Any] = []
    answer.attach(delivered.append)
    world.replica.backlog.remove(1000)
    (work,) = delivered
    assert [part.error_code for part in parts(completed(work))] == [0, 0]
    assert len(world.replica.appended) == 2


def test_request_waits_again_if_others_took_the_space() -> None:
    world = BrokerWorld()
    backlog = world.replica.backlog
    backlog.add(1000)
    answer, delivered = world.produce(produced(b"a")), list[Any]()
    answer.attach(delivered.append)
    backlog.remove(1000)
    backlog.add(1000)
    again = completed(delivered.pop())
    assert isinstance(again, PendingResponse) and world.replica.appended == []
    again.attach(delivered.append)
    backlog.remove(1000)
    assert [part.error_code for part in parts(completed(delivered.pop()))] == [0]


def test_batches_of_a_request_that_waits_too_long_time_out_and_are_not_appended() -> None:
    world = BrokerWorld()
    world.replica.backlog.add(1000)
    answer, delivered = world.produce(produced(b"a"), produced(b"b"), acks=1), list[Any]()
    assert answer.deadline == world.context(13).now + 1
    answer.attach(delivered.append)
    answer.try_expire()
    (response,) = delivered
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert [part.error_code for part in parts(response)] == [timed_out, timed_out]
    world.replica.backlog.remove(1000)
    assert world.replica.appended == []


def test_request_without_a_response_waits_as_long_as_it_takes() -> None:
    world = BrokerWorld()
    world.replica.backlog.add(1000)
    answer, delivered = world.produce(produced(b"a"), acks=0, timeout_ms=0), list[Any]()
    assert answer.deadline is None
    answer.attach(delivered.append)
    world.replica.backlog.remove(1000)
    assert completed(delivered.pop()) is NO_RESPONSE and len(world.replica.appended) == 1


def test_request_whose_connection_closes_while_it_waits_is_forgotten() -> None:
    world = BrokerWorld()
    world.replica.backlog.add(1000)
    answer = world.produce(produced(b"a"))
    answer.cancel()
    world.replica.backlog.remove(1000)
    assert world.replica.appended == [] and not world.replica.backlog._waiting


def test_refused_batch_does_not_wait() -> None:
    world = BrokerWorld()
    world.replica.backlog.add(1000)
    assert [part.error_code for part in parts(world.produce(b"x"))] == [ErrorCode.CORRUPT_MESSAGE]


def test_memory_of_a_request_is_that_of_its_records_and_partitions() -> None:
    handler = handlers()[produce.API_KEY]
    form = handler.request_type(13)
    partitions = [{"index": at, "records": b"x"} for at in range(100)]
    topics = [{"topic_id": Uuid(bytes(16)), "partition_data": partitions}] * 2
    request = build(form, {"topic_data": topics})
    assert handler.memory_of is not None
    assert handler.memory_of(request, 10_000) == 20_000 + 200 * 600
