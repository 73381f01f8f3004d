"""Requests of transactional producers, in order, that Kafka and kwire are asked, and what of their
answers must be equal.

A case is a function of a :class:`Side`, which returns plain values. Producer ids are numbered by
the order in which they appear, as each server gives out its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from kwire.message import Message
from kwire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.messages.end_txn_request import EndTxnRequest
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.messages.list_transactions_request import ListTransactionsRequest
from kwire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol import ErrorCode
from kwire.records import Record, encode_batch
from tests.waiting import until
from tools.wire_client import WireClient

TOPIC: Final = "data"
_LATER: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
Producer = tuple[int, int]


class Side:
    """A connection to one of the servers."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._ids: dict[int, str] = {-1: "none"}
        self._names = itertools.count()

    def call(self, request: Message, version: int) -> Any:
        return self._client.call(request, version)

    def name(self) -> str:
        """Return a transactional id that no case has used."""
        return f"id-{next(self._names)}"

    def id(self, producer_id: int) -> str:
        """Return the number of a producer id."""
        return self._ids.setdefault(producer_id, f"id {len(self._ids)}")

    def prepare(self) -> None:
        """Make the topics, and wait until every coordinator answers."""
        topic = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)
        self.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
        for kind in (0, 1):
            until(
                lambda kind=kind: self._finds(kind),  # type: ignore[misc]
                f"coordinators of kind {kind}",
            )
        until(
            lambda: self.call(ListTransactionsRequest(), 0).error_code not in _LATER,
            "transactions to be loaded",
        )

    def _finds(self, kind: int) -> bool:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
        return self.call(request, 4).coordinators[0].error_code not in _LATER

    def init(
        self,
        name: str,
        producer: Producer = (-1, -1),
        *,
        version: int = 5,
        timeout_ms: int = 60_000,
        waits: bool = True,
    ) -> tuple[str, Producer]:
        """Return the error and the producer; ask again while the coordinator is at work."""
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        later = _LATER | ({ErrorCode.CONCURRENT_TRANSACTIONS} if waits else set())
        while (answer := self.call(request, version)).error_code in later:
            pass
        return ErrorCode(answer.error_code).name, (answer.producer_id, answer.producer_epoch)

    def producer(self, name: str) -> Producer:
        error, producer = self.init(name)
        assert error == "NONE"
        return producer

    def add(
        self, name: str, producer: Producer, *, topic: str = TOPIC, index: int = 0, version: int = 3
    ) -> str:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        while True:
            answer = self.call(request, version)
            error = (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
            if error != ErrorCode.CONCURRENT_TRANSACTIONS:
                return ErrorCode(error).name

    def produce(
        self, name: str, producer: Producer, sequence: int, *, version: int = 12, index: int = 0
    ) -> str:
        """Produce one record in the transaction; return the error, once the coordinator has one."""
        records = encode_batch(
            [Record(offset=0, timestamp=0, value=b"value")],
            is_transactional=True,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
        )
        partition = PartitionProduceData(index=index, records=records)
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])],
        )
        later = {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS}
        while True:
            answer = self.call(request, version)
            error = answer.responses[0].partition_responses[0].error_code
            if error not in later:
                return ErrorCode(error).name

    def add_by_broker(self, name: str, producer: Producer, *, verifies: bool) -> list[str]:
        """Ask as a broker, for a partition that exists; return its error."""
        one = AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verifies,
            topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0, 1])],
        )
        answer = self.call(AddPartitionsToTxnRequest(transactions=[one]), 5)
        return [
            ErrorCode(partition.partition_error_code).name
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for partition in sorted(topic.results_by_partition, key=lambda it: it.partition_index)
        ]

    def add_offsets(self, name: str, producer: Producer, version: int = 4) -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        while (answer := self.call(request, version)).error_code == (
            ErrorCode.CONCURRENT_TRANSACTIONS
        ):
            pass
        return ErrorCode(answer.error_code).name

    def commit_offset(
        self,
        name: str,
        producer: Producer,
        *,
        version: int = 5,
        group: str = "g",
        topic: str = TOPIC,
        index: int = 0,
        member: str = "",
        generation: int = -1,
    ) -> str:
        """Commit offset 7 of a partition in the transaction; return the error."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=7, committed_metadata="note"
        )
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        if version >= 3:
            request.member_id = member
            request.generation_id_or_member_epoch = generation
        answer = self.call(request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    def committed(self, group: str = "g", *, is_stable: bool = False) -> tuple[Any, ...]:
        """Return the committed offset of the first partition, with its metadata."""
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        wanted = OffsetFetchRequestGroup(group_id=group, topics=[topic])
        answer = self.call(OffsetFetchRequest(groups=[wanted], require_stable=is_stable), 8)
        one = answer.groups[0].topics[0].partitions[0]
        return ErrorCode(one.error_code).name, one.committed_offset, one.metadata

    def end(
        self, name: str, producer: Producer, *, commits: bool = True, version: int = 5
    ) -> tuple[str, str, int]:
        """Return the error, the number of the producer id, and the epoch."""
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commits,
        )
        while (answer := self.call(request, version)).error_code == (
            ErrorCode.CONCURRENT_TRANSACTIONS
        ):
            pass
        return (
            ErrorCode(answer.error_code).name,
            self.id(answer.producer_id),
            answer.producer_epoch,
        )

    def state(self, name: str) -> tuple[Any, ...]:
        """Return what DescribeTransactions says of an id, once it is at rest."""
        request = DescribeTransactionsRequest(transactional_ids=[name])
        while True:
            (one,) = self.call(request, 0).transaction_states
            if not one.transaction_state.startswith("Prepare"):
                break
        if one.error_code:
            return (ErrorCode(one.error_code).name,)
        topics = sorted((topic.topic, sorted(topic.partitions)) for topic in one.topics)
        return (
            ErrorCode(one.error_code).name,
            one.transaction_state,
            self.id(one.producer_id),
            one.producer_epoch,
            one.transaction_timeout_ms,
            one.transaction_start_time_ms > 0,
            topics,
        )


def _shown(side: Side, result: tuple[str, Producer]) -> tuple[str, str, int]:
    error, (producer_id, epoch) = result
    return error, side.id(producer_id), epoch


def new_ids(side: Side) -> list[Any]:
    name = side.name()
    first = side.init(name)
    again = side.init(name, first[1])
    return [
        _shown(side, first),
        _shown(side, again),
        _shown(side, side.init(name, first[1])),
        _shown(side, side.init(name)),
        _shown(side, side.init(name, first[1])),
        _shown(side, side.init(name, first[1], version=3)),
        _shown(side, side.init(name, (first[1][0], -1))),
        _shown(side, side.init(name, (-1, 3))),
        _shown(side, side.init(name, (123456, 0))),
        _shown(side, side.init("", timeout_ms=1)),
        _shown(side, side.init(name, timeout_ms=0)),
        _shown(side, side.init(name, timeout_ms=900_001)),
        side.state(name),
        side.state("unknown"),
        side.state(""),
    ]


def commits(side: Side) -> list[Any]:
    name = side.name()
    producer = side.producer(name)
    found: list[Any] = [
        side.end(name, producer),
        side.add(name, producer),
        side.add(name, producer, index=1),
        side.add(name, producer, index=9),
        side.add(name, producer, topic="unknown"),
        side.add(name, producer, topic="__consumer_offsets"),
        side.state(name),
        side.end(name, producer),
        side.state(name),
        side.end(name, producer),
        side.end(name, producer, commits=False),
        side.add(name, producer),
        side.add(name, producer, version=1),
        side.end(name, (producer[0], producer[1] + 1)),
        side.end(name, (producer[0], producer[1] + 1), commits=False),
        side.state(name),
        side.end(name, (producer[0] + 77, 0)),
        side.end("unknown", producer),
        side.end("", producer),
    ]
    return found


def commits_of_old_clients(side: Side) -> list[Any]:
    name = side.name()
    producer = side.producer(name)
    return [
        side.end(name, producer, version=4),
        side.add(name, producer),
        side.end(name, producer, version=4),
        side.end(name, producer, version=4),
        side.end(name, producer, version=4, commits=False),
        side.state(name),
        side.add(name, producer),
        side.end(name, producer, version=4, commits=False),
        side.end(name, producer, version=4, commits=False),
        side.state(name),
        side.end(name, (producer[0], producer[1] + 1), version=4),
        side.end(name, (producer[0], producer[1] + 1), version=1),
    ]


def fenced(side: Side) -> list[Any]:
    name = side.name()
    first = side.producer(name)
    found: list[Any] = [side.add(name, first), side.init(name, waits=False)[0]]
    second = side.init(name)
    found += [
        _shown(side, second),
        side.add(name, first),
        side.add(name, first, version=1),
        side.add_offsets(name, first),
        side.add_offsets(name, first, version=1),
        side.end(name, first),
        side.end(name, first, version=1),
        side.add_offsets(name, second[1]),
        side.state(name),
        side.end(name, second[1]),
        side.state(name),
    ]
    return found


def first_sequences(side: Side) -> list[Any]:
    """The sequence with which a producer begins that a partition does not know, or in a new
    transaction.
    """
    found: list[Any] = []
    for version, of_end in ((11, 4), (12, 5)):
        for first in (3, 0):
            name = side.name()
            producer = side.producer(name)
            for second in (first, 5, 0):
                if version < 12:
                    found.append(side.add(name, producer))
                found += [
                    side.produce(name, producer, second, version=version),
                    side.produce(name, producer, second + 1, version=version),
                ]
                ended = side.end(name, producer, version=of_end)
                found += [ended, side.state(name)]
                producer = producer[0], ended[2] if of_end >= 5 else producer[1]
    return found


def of_brokers(side: Side) -> list[Any]:
    name = side.name()
    producer = side.producer(name)
    return [
        side.add_by_broker(name, producer, verifies=True),
        side.add(name, producer),
        side.add_by_broker(name, producer, verifies=True),
        side.add_by_broker(name, producer, verifies=False),
        side.add_by_broker(name, producer, verifies=True),
        side.add_by_broker(name, (producer[0], 9), verifies=True),
        side.add_by_broker(name, (producer[0] + 99, 0), verifies=True),
        side.add_by_broker(name, (producer[0], 9), verifies=False),
        side.add_by_broker("unknown", producer, verifies=True),
        side.add_by_broker("", producer, verifies=True),
        side.end(name, producer, commits=False),
        side.state(name),
    ]


def offsets(side: Side) -> list[Any]:
    name, group = side.name(), side.name()
    producer = side.producer(name)
    found: list[Any] = [
        side.commit_offset(name, producer, version=3, group=group),
        side.commit_offset(name, producer, version=4, group=group),
        side.commit_offset(name, producer, version=1, group=""),
        side.commit_offset(name, producer, group=""),
        side.add_offsets(name, producer),
        side.commit_offset(name, producer, version=1, group="old" + group),
        side.commit_offset(name, producer, version=3, group=group),
        side.commit_offset(name, producer, group=group),
        side.committed(group),
        side.committed(group, is_stable=True),
        side.commit_offset(name, producer, group=group, topic="unknown"),
        side.commit_offset(name, producer, group=group, index=9),
        side.commit_offset(name, producer, group=group, member="m", generation=3),
        side.commit_offset(name, (producer[0], producer[1] + 5), group=group),
        side.commit_offset(name, (producer[0], producer[1] + 5), group=group, version=3),
        side.commit_offset(name, (producer[0] + 99, 0), group=group),
        side.end(name, producer, commits=False),
        side.state(name),
        side.committed(group, is_stable=True),
    ]
    producer = producer[0], producer[1] + 1
    found += [
        side.commit_offset(name, producer, group=group),
        side.end(name, producer),
        side.state(name),
        side.committed(group, is_stable=True),
        side.commit_offset(name, producer, group=group),
    ]
    return found


def lists(side: Side) -> list[Any]:
    name = side.name()
    producer = side.producer(name)
    found: list[Any] = [side.add(name, producer)]

    def listed(version: int = 1, **filters: Any) -> Any:
        answer = side.call(ListTransactionsRequest(**filters), version)
        return (
            answer.error_code,
            answer.unknown_state_filters,
            sorted(
                (one.transactional_id, side.id(one.producer_id), one.transaction_state)
                for one in answer.transaction_states
                if one.transactional_id == name
            ),
        )

    found += [
        listed(),
        listed(state_filters=["Ongoing"]),
        listed(state_filters=["Empty"]),
        listed(state_filters=["ongoing", "Lost"]),
        listed(producer_id_filters=[producer[0]]),
        listed(producer_id_filters=[producer[0] + 999]),
        listed(duration_filter=0),
        listed(duration_filter=1_000_000),
        listed(duration_filter=-5),
        listed(2, transactional_id_pattern=name),
        listed(2, transactional_id_pattern=name[:-1]),
        listed(2, transactional_id_pattern=f"x|{name}"),
        listed(2, transactional_id_pattern=""),
        listed(2, transactional_id_pattern="("),
        side.end(name, producer),
    ]
    return found


CASES: Final[tuple[Callable[[Side], list[Any]], ...]] = (
    new_ids,
    commits,
    commits_of_old_clients,
    first_sequences,
    fenced,
    of_brokers,
    offsets,
    lists,
)
