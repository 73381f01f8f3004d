"""DescribeTransactions shows what a client may see of transactional ids."""

from __future__ import annotations

from typing import Any

from gateway.handlers.apis import describe_transactions
from kwire.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.protocol import ErrorCode
from tests.gateway.broker.transactions.driver import TIMEOUT_MS, A, B
from tests.gateway.handlers.transaction_world import TransactionWorld
from tests.gateway.handlers.world import World


def describe(world: Any, *names: str) -> Any:
    answer = world.ask(describe_transactions, 0, transactional_ids=list(names))
    return answer.transaction_states


def test_versions_are_those_of_kafka() -> None:
    assert describe_transactions.VERSIONS == DescribeTransactionsRequest.VERSIONS


def test_open_transaction_is_described_with_its_partitions() -> None:
    world = TransactionWorld()
    world.transactions.driver.add(world.producer, A, B, name="pay")
    (found,) = describe(world, "pay")
    assert (found.error_code, found.transaction_state) == (0, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == world.producer
    assert found.transaction_timeout_ms == TIMEOUT_MS
    assert found.transaction_start_time_ms == world.transactions.driver.now_ms
    assert [(one.topic, one.partitions) for one in found.topics] == [("a", [0]), ("b", [1])]


def test_prepared_transaction_has_the_partitions_without_a_marker() -> None:
    world = TransactionWorld()
    driver = world.transactions.driver
    driver.add(world.producer, A, B, name="pay", version=2)
    driver.marker_error = lambda where: (
        ErrorCode.TRANSACTION_COORDINATOR_FENCED if where == B else ErrorCode.NONE
    )
    driver.end(world.producer, name="pay")
    (found,) = describe(world, "pay")
    assert found.transaction_state == "PrepareCommit"
    assert [(one.topic, one.partitions) for one in found.topics] == [("b", [1])]


def test_topics_that_the_client_may_not_describe_are_left_out() -> None:
    world = TransactionWorld()
    world.transactions.driver.add(world.producer, A, B, name="pay")
    world.authorizer.forbidden.add(("DESCRIBE", "TOPIC", "a"))
    (found,) = describe(world, "pay")
    assert [one.topic for one in found.topics] == ["b"]


def test_id_that_is_not_described_has_its_reason() -> None:
    world = TransactionWorld()
    world.authorizer.forbidden.add(("DESCRIBE", "TRANSACTIONAL_ID", "pay"))
    assert [one.error_code for one in describe(world, "pay", "unknown", "")] == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
    ]
    assert describe(World(), "pay")[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
