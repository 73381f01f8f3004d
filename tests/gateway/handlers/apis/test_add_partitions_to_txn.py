"""AddPartitionsToTxn of clients and of brokers: which partitions are added, and which error each
has.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.transactions.transaction import TopicPartition
from gateway.handlers.apis import add_partitions_to_txn
from gateway.ports.pending_response import PendingResponse
from kwire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from kwire.protocol import ErrorCode
from tests.gateway.handlers.transaction_world import TransactionWorld
from tests.gateway.handlers.world import World, over_the_wire

OF_CLIENTS, OF_BROKERS = range(4), range(4, 6)


def add(world: Any, version: int, *topics: tuple[str, list[int]], **more: Any) -> Any:
    """Return the errors by topic, as a client; and those of one transaction, as a broker."""
    wanted = [{"name": name, "partitions": indexes} for name, indexes in topics]
    producer = getattr(world, "producer", (1, 0))
    of_one: dict[str, Any] = {
        "transactional_id": "pay",
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "topics": wanted,
    }
    if version in OF_CLIENTS:
        fields = {f"v3_and_below_{name}": value for name, value in of_one.items()}
        return _errors(_ask(world, version, fields).results_by_topic_v3_and_below)
    answer = _ask(world, version, {"transactions": [of_one | more]})
    return [_errors(one.topic_results) for one in answer.results_by_transaction]


def _ask(world: Any, version: int, fields: dict[str, Any]) -> Any:
    answer = world.ask(add_partitions_to_txn, version, **fields)
    return over_the_wire(answer.take(), version) if isinstance(answer, PendingResponse) else answer


def _errors(topics: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in topics
        for one in topic.results_by_partition
    }


def test_versions_are_those_of_kafka() -> None:
    assert add_partitions_to_txn.VERSIONS == AddPartitionsToTxnRequest.VERSIONS


@pytest.mark.parametrize("version", OF_CLIENTS)
def test_partition_is_added_for_a_client(version: int) -> None:
    world = TransactionWorld()
    assert add(world, version, ("t", [0])) == {("t", 0): ErrorCode.NONE}
    assert world.transactions.driver.known("pay").partitions == {TopicPartition("t", 0)}


@pytest.mark.parametrize("version", OF_CLIENTS)
def test_fenced_producer_hears_of_it_in_words_that_it_knows(version: int) -> None:
    world = TransactionWorld()
    world.transactions.driver.producer("pay")
    error = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert add(world, version, ("t", [0])) == {("t", 0): error}


def test_one_partition_with_a_fault_refuses_the_others() -> None:
    world = TransactionWorld()
    world.create("secret", [7])
    world.authorizer.forbidden.add(("WRITE", "TOPIC", "secret"))
    wanted = ("t", [0, 5]), ("secret", [0]), ("none", [0]), ("__consumer_offsets", [0])
    assert add(world, 3, *wanted) == {
        ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("t", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("secret", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("__consumer_offsets", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert world.transactions.driver.known("pay").partitions == frozenset()


def test_client_without_write_of_the_id_adds_nothing() -> None:
    world = TransactionWorld()
    world.authorizer.forbidden.add(("WRITE", "TRANSACTIONAL_ID", "pay"))
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert add(world, 3, ("t", [0])) == {("t", 0): error}


@pytest.mark.parametrize("version", OF_BROKERS)
def test_broker_adds_partitions_of_a_transaction_with_bumps(version: int) -> None:
    world = TransactionWorld()
    assert add(world, version, ("t", [0])) == [{("t", 0): ErrorCode.NONE}]
    assert world.transactions.driver.known("pay").client_version == 2


@pytest.mark.parametrize("version", OF_BROKERS)
def test_broker_asks_whether_partitions_are_in_a_transaction(version: int) -> None:
    world = TransactionWorld()
    asked = add(world, version, ("t", [0]), verify_only=True)
    assert asked == [{("t", 0): ErrorCode.TRANSACTION_ABORTABLE}]
    add(world, 3, ("t", [0]))
    assert add(world, version, ("t", [0]), verify_only=True) == [{("t", 0): ErrorCode.NONE}]


def test_client_that_is_no_broker_may_not_ask_as_one() -> None:
    world = TransactionWorld()
    world.authorizer.forbidden.add(("CLUSTER_ACTION", "CLUSTER", "kafka-cluster"))
    answer = world.ask(add_partitions_to_txn, 5, transactions=[])
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_server_that_is_no_broker_refuses_every_client() -> None:
    errors = add(World(), 3, ("__cluster_metadata", [0]))
    assert set(errors.values()) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
