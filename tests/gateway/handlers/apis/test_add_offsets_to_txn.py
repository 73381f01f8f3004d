"""AddOffsetsToTxn adds the partition of the group, for clients that may write and read."""

from __future__ import annotations

import pytest

from gateway.broker.transactions.transaction import TopicPartition
from gateway.handlers.apis import add_offsets_to_txn
from kwire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.protocol import ErrorCode
from tests.gateway.handlers.transaction_world import TransactionWorld
from tests.gateway.handlers.world import World


def test_versions_are_those_of_kafka() -> None:
    assert add_offsets_to_txn.VERSIONS == AddOffsetsToTxnRequest.VERSIONS


@pytest.mark.parametrize("version", add_offsets_to_txn.VERSIONS)
def test_partition_of_the_group_becomes_part_of_the_transaction(version: int) -> None:
    world = TransactionWorld()
    assert world.of(add_offsets_to_txn, version, group_id="g").error_code == 0
    known = world.transactions.driver.known("pay")
    assert known.partitions == {TopicPartition("__consumer_offsets", 7)}


@pytest.mark.parametrize("version", add_offsets_to_txn.VERSIONS)
def test_fenced_producer_hears_of_it_in_words_that_it_knows(version: int) -> None:
    world = TransactionWorld()
    world.transactions.driver.producer("pay")
    error = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.of(add_offsets_to_txn, version, group_id="g").error_code == error


@pytest.mark.parametrize(
    ("forbidden", "error"),
    [
        (
            ("WRITE", "TRANSACTIONAL_ID", "pay"),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (("READ", "GROUP", "g"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_client_without_a_permission_is_refused(
    forbidden: tuple[str, str, str], error: ErrorCode
) -> None:
    world = TransactionWorld()
    world.authorizer.forbidden.add(forbidden)
    assert world.of(add_offsets_to_txn, 4, group_id="g").error_code == error


def test_group_without_a_partition_has_no_coordinator_yet() -> None:
    world = TransactionWorld()
    world.transactions.offsets_partition = None
    answer = world.of(add_offsets_to_txn, 4, group_id="g")
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_server_that_is_no_broker_refuses_every_client() -> None:
    answer = World().ask(add_offsets_to_txn, 4, transactional_id="pay")
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
