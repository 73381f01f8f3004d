"""Fetch: batches and limits, errors, and waiting."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from kafka.errors import for_code

from gateway.config.config import Config
from gateway.handlers.apis import fetch
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import State
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.handlers.world import NODE, MemoryPartition, World, over_the_wire

BY_NAME, BY_ID = 12, 18
OTHER_ID = Uuid(b"\x07" * 16)


def one(
    version: int, offset: int, index: int = 0, *, topic: str = "__cluster_metadata", **more: Any
) -> dict[str, Any]:
    """A Fetch of one partition. ``topic_id`` and request fields may be given; the others are the
    partition's.
    """
    request = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**31 - 1}
    request |= {
        key: more.pop(key)
        for key in list(more)
        if key in (*request, "isolation_level", "replica_id", "replica_state")
    }
    topic_id = more.pop("topic_id", METADATA_TOPIC_ID)
    named = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
    partition = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}
    return request | {"topics": [{**named, "partitions": [partition]}]}


def data_of(answer: Any) -> Any:
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition


@pytest.mark.parametrize("version", fetch.VERSIONS)
def test_every_version_gives_the_batches(version: int) -> None:
    world = World()
    answer = world.ask(fetch, version, **one(version, 0))
    data = data_of(answer)
    assert bytes(data.records) == b"".join(batch.data for batch in world.partition.batches)
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 15, 15)
    assert answer.session_id == 0
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.preferred_read_replica == -1
    topic = answer.responses[0]
    assert (
        (topic.topic_id == METADATA_TOPIC_ID)
        if version >= 13
        else (topic.topic == "__cluster_metadata")
    )
    assert world.partition.open_reads == 0


def test_a_fetch_inside_a_batch_gives_the_whole_batch() -> None:
    data = data_of(World().ask(fetch, BY_ID, **one(BY_ID, 5)))
    assert bytes(data.records).startswith(b"1-9@1;")


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        ({"max_bytes": 1}, 1),
        ({"max_bytes": 0}, 1),
        ({"max_bytes": -5}, 1),
        ({"partition_max_bytes": 0}, 1),
        ({"partition_max_bytes": 250}, 2),
        ({"max_bytes": 399}, 3),
        ({"max_bytes": 400}, 4),
    ],
)
def test_limits_cut_at_batches_but_never_below_one(limits: dict[str, Any], batches: int) -> None:
    data = data_of(World().ask(fetch, BY_ID, **one(BY_ID, 0, **limits)))
    assert len(data.records) == batches * 100


def test_the_servers_limit_holds_above_the_clients() -> None:
    world = World(MemoryPartition(), config=Config(fetch_max_bytes=2048))
    for _ in range(5):
        world.partition.append(size=1000)
    data = data_of(world.ask(fetch, BY_ID, **one(BY_ID, 0)))
    assert len(data.records) == 2000


@pytest.mark.parametrize(("level", "aborted"), [(0, None), (1, [])])
def test_aborted_transactions_are_null_or_empty_by_isolation_level(
    level: int, aborted: list[Any] | None
) -> None:
    assert (
        data_of(
            World().ask(fetch, BY_ID, **one(BY_ID, 0, isolation_level=level))
        ).aborted_transactions
        == aborted
    )


@pytest.mark.parametrize("level", [0, 1])
def test_last_stable_offset_is_that_of_the_partition_at_both_isolation_levels(level: int) -> None:
    world = World()
    world.partition.open_transaction_at = 12
    data = data_of(world.ask(fetch, BY_ID, **one(BY_ID, 0, isolation_level=level)))
    assert (data.high_watermark, data.last_stable_offset) == (15, 12)


def test_at_the_high_watermark_records_are_empty_and_not_null() -> None:
    world = World()
    data = data_of(world.ask(fetch, BY_ID, **one(BY_ID, 15)))
    assert data.records is not None
    assert (data.error_code, len(data.records)) == (0, 0)
    assert world.partition.open_reads == 0


@pytest.mark.parametrize("offset", [-1, 16, 2**63 - 1])
def test_offset_outside_the_log_is_out_of_range(offset: int) -> None:
    data = data_of(World().ask(fetch, BY_ID, **one(BY_ID, offset, max_wait_ms=1000)))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert data.records is not None


def test_offset_below_the_log_start_is_out_of_range() -> None:
    world = World()
    world.partition.log_start_offset = 10
    assert (
        data_of(world.ask(fetch, BY_ID, **one(BY_ID, 9))).error_code
        == ErrorCode.OFFSET_OUT_OF_RANGE
    )
    assert data_of(world.ask(fetch, BY_ID, **one(BY_ID, 10))).log_start_offset == 10


@pytest.mark.parametrize(
    ("version", "fields", "error"),
    [
        (BY_NAME, {"topic": "orders"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BY_NAME, {"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BY_NAME, {"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BY_ID, {"topic_id": OTHER_ID}, ErrorCode.UNKNOWN_TOPIC_ID),
        (BY_ID, {"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BY_ID, {"current_leader_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        (BY_ID, {"current_leader_epoch": 4}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (BY_ID, {"current_leader_epoch": 3}, ErrorCode.NONE),
    ],
)
def test_error_is_returned_without_waiting(
    version: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    answer = World().ask(fetch, version, **one(version, 0, max_wait_ms=1000, **fields))
    assert data_of(answer).error_code == error


def test_response_to_an_old_epoch_names_the_leader_from_version_16_on() -> None:
    answer = World().ask(fetch, 16, listener="EXTERNAL", **one(16, 0, current_leader_epoch=1))
    leader = data_of(answer).current_leader
    assert (leader.leader_id, leader.leader_epoch) == (NODE, 3)
    assert [(node.node_id, node.port) for node in answer.node_endpoints] == [(NODE, 19092)]
    older = data_of(World().ask(fetch, 15, **one(15, 0, current_leader_epoch=1)))
    assert older.current_leader.leader_id == -1


def test_fetch_needs_read_on_the_topic() -> None:
    world = World()
    world.authorizer.forbidden = {("READ", "TOPIC", "*")}
    for version, error in (
        (BY_NAME, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (BY_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        assert data_of(world.ask(fetch, version, **one(version, 0))).error_code == error
    unknown = world.ask(fetch, BY_ID, **one(BY_ID, 0, topic_id=OTHER_ID))
    assert data_of(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_named_twice_is_answered_once_by_its_last_entry() -> None:
    fields = one(BY_ID, 0)
    fields["topics"][0]["partitions"].append(
        {"partition": 0, "fetch_offset": 12, "partition_max_bytes": 1000}
    )
    world = World()
    assert bytes(data_of(world.ask(fetch, BY_ID, **fields)).records).startswith(b"12-14@3;")
    assert world.partition.open_reads == 0


def test_topics_that_follow_each_other_are_answered_together_as_in_kafka() -> None:
    fields = one(BY_NAME, 0, topic="orders")
    for name, index in (("orders", 1), ("bills", 0), ("orders", 2), ("orders", 0)):
        fields["topics"].append({"topic": name, "partitions": [{"partition": index}]})
    answer = World().ask(fetch, BY_NAME, **fields)
    assert [(t.topic, [p.partition_index for p in t.partitions]) for t in answer.responses] == [
        ("orders", [0, 1]),
        ("bills", [0]),
        ("orders", [2]),
    ]


def test_known_and_unknown_partitions_in_one_request() -> None:
    fields = one(BY_NAME, 0)
    fields["topics"].append({"topic": "orders", "partitions": [{"partition": 0}, {"partition": 5}]})
    answer = World().ask(fetch, BY_NAME, **fields)
    assert [(t.topic, [p.error_code for p in t.partitions]) for t in answer.responses] == [
        ("__cluster_metadata", [0]),
        ("orders", [3, 3]),
    ]


def test_fetch_while_loading_gets_not_leader_or_follower() -> None:
    world = World()
    world.partition.state = State.LOADING
    data = data_of(world.ask(fetch, BY_ID, **one(BY_ID, 0, max_wait_ms=1000)))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert for_code(data.error_code).retriable


@pytest.mark.parametrize("state", [State.STALE, State.BROKEN])
def test_loaded_records_are_served_after_the_source_failed(state: State) -> None:
    world = World()
    world.partition.state = state
    assert len(data_of(world.ask(fetch, BY_ID, **one(BY_ID, 0))).records) == 400


class TestDivergence:
    """KIP-595's check, which consumers trigger only by telling the epoch of their last record."""

    @pytest.mark.parametrize(
        ("offset", "last_epoch", "diverging"),
        [
            (15, 3, None),
            (10, 1, None),
            (5, 1, None),
            (10, 2, (1, 10)),  # epoch 2 wrote nothing here
            (12, 1, (1, 10)),  # epoch 1 ended at 10
            (15, -1, None),
        ],
    )
    def test_divergence_is_returned_only_for_a_diverged_log(
        self, offset: int, last_epoch: int, diverging: Any
    ) -> None:
        data = data_of(
            World().ask(fetch, BY_ID, **one(BY_ID, offset, last_fetched_epoch=last_epoch))
        )
        assert data.error_code == 0
        told = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        assert told == (diverging or (-1, -1))
        if diverging:
            assert (len(data.records), data.high_watermark) == (0, 15)

    def test_an_epoch_that_is_not_in_the_log_is_out_of_range(self) -> None:
        data = data_of(
            World().ask(fetch, BY_ID, **one(BY_ID, 12, last_fetched_epoch=9, max_wait_ms=500))
        )
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_below_the_log_start_is_out_of_range_whatever_the_epoch(self) -> None:
        world = World()
        world.partition.log_start_offset = 10
        data = data_of(world.ask(fetch, BY_ID, **one(BY_ID, 5, last_fetched_epoch=1)))
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_the_first_record_after_a_lost_epoch_is_no_divergence(self) -> None:
        world = World()
        world.partition.batches = world.partition.batches[2:]
        world.partition.log_start_offset = 10
        assert (
            bytes(data_of(world.ask(fetch, BY_ID, **one(BY_ID, 10, last_fetched_epoch=1))).records)[
                :2
            ]
            == b"10"
        )


class TestLongPoll:
    def park(self, world: World, **fields: Any) -> PendingResponse:
        pending = world.ask(fetch, BY_ID, **one(BY_ID, 15, **({"max_wait_ms": 500} | fields)))
        assert isinstance(pending, PendingResponse)
        return pending

    def test_at_the_end_it_waits_until_the_log_grows(self) -> None:
        world = World()
        pending = self.park(world)
        pending.try_complete()
        assert not pending.done
        world.partition.append(3)
        pending.try_complete()
        answers: list[Any] = []
        pending.attach(answers.append)
        data = data_of(over_the_wire(answers[0], BY_ID))
        assert bytes(data.records).startswith(b"15-17@3;")
        assert data.high_watermark == 18

    def test_when_the_time_is_over_the_answer_is_empty(self) -> None:
        world = World()
        pending = self.park(world, max_wait_ms=500)
        assert pending.deadline == pytest.approx(100.5)
        assert pending.expire is not None
        data = data_of(over_the_wire(pending.expire(), BY_ID))
        assert (data.error_code, len(data.records), data.high_watermark) == (0, 0, 15)
        assert world.partition.open_reads == 0

    @pytest.mark.parametrize(
        "case", ["one partition many times", "one topic many times", "long name of a rack"]
    )
    def test_parked_fetch_keeps_no_more_than_its_answer_needs(self, case: str) -> None:
        world, fields = World(), one(BY_ID, 15, max_wait_ms=500)
        (topic,) = fields["topics"]
        if case == "one partition many times":
            topic["partitions"] *= 5_000
        elif case == "one topic many times":
            fields["topics"] *= 3_000
        else:
            fields["rack_id"] = "r" * 30_000
        world.ask(fetch, BY_ID, **fields)  # what a first request leaves in caches is not counted
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            pending = world.ask(fetch, BY_ID, **fields)
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert isinstance(pending, PendingResponse) and not pending.keeps_request
        assert kept < 20_000, f"{kept} bytes"
        world.partition.append()
        pending.try_complete()
        assert pending.done

    def test_no_wait_is_longer_than_the_servers(self) -> None:
        pending = self.park(World(), max_wait_ms=2**31 - 1)
        assert pending.deadline == pytest.approx(100 + fetch.WAIT_MAX_MS / 1000)

    def test_it_waits_for_min_bytes(self) -> None:
        world = World()
        pending = world.ask(fetch, BY_ID, **one(BY_ID, 12, min_bytes=250, max_wait_ms=500))
        assert isinstance(pending, PendingResponse)
        world.partition.append()
        pending.try_complete()
        assert not pending.done
        world.partition.append()
        pending.try_complete()
        assert pending.done

    def test_min_bytes_beyond_what_may_be_sent_does_not_wait(self) -> None:
        answer = World().ask(
            fetch,
            BY_ID,
            **one(BY_ID, 0, min_bytes=1 << 30, partition_max_bytes=150, max_wait_ms=500),
        )
        assert len(data_of(answer).records) == 100

    @pytest.mark.parametrize(
        "fields", [{"min_bytes": 0}, {"min_bytes": -1}, {"max_wait_ms": 0}, {"max_wait_ms": -1}]
    )
    def test_fetch_without_a_wait_is_answered_at_once(self, fields: dict[str, Any]) -> None:
        answer = World().ask(fetch, BY_ID, **one(BY_ID, 15, **({"max_wait_ms": 500} | fields)))
        assert len(data_of(answer).records) == 0

    def test_fetch_without_partitions_is_answered_at_once(self) -> None:
        assert World().ask(fetch, BY_ID, max_wait_ms=500, min_bytes=1, topics=[]).responses == []

    def test_new_leader_epoch_completes_a_waiting_fetch_with_an_error(self) -> None:
        world = World()
        pending = self.park(world, current_leader_epoch=3)
        world.partition.append(epoch=4)
        pending.try_complete()
        answers: list[Any] = []
        pending.attach(answers.append)
        assert data_of(answers[0]).error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_log_start_beyond_the_fetch_offset_completes_a_waiting_fetch(self) -> None:
        world = World()
        pending = self.park(world)
        world.partition.append(5)
        world.partition.log_start_offset = 18
        pending.try_complete()
        answers: list[Any] = []
        pending.attach(answers.append)
        assert data_of(answers[0]).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("version", "fields"),
    [(14, {"replica_id": 3}), (18, {"replica_state": {"replica_id": 3, "replica_epoch": 1}})],
)
def test_client_with_a_replica_id_gets_a_consumers_response(
    version: int, fields: dict[str, Any]
) -> None:
    data = data_of(World().ask(fetch, version, **one(version, 0, **fields)))
    assert (data.error_code, data.high_watermark, len(data.records)) == (0, 15, 400)
