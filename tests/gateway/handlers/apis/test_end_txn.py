"""EndTxn at every version: who may end a transaction, and what the client hears."""

from __future__ import annotations

import pytest

from gateway.handlers.apis import end_txn
from kwire.messages.end_txn_request import EndTxnRequest
from kwire.protocol import ErrorCode
from tests.gateway.broker.transactions.driver import A
from tests.gateway.handlers.transaction_world import TransactionWorld
from tests.gateway.handlers.world import World


def test_versions_are_those_of_kafka() -> None:
    assert end_txn.VERSIONS == EndTxnRequest.VERSIONS


@pytest.mark.parametrize("version", end_txn.VERSIONS)
def test_commit_bumps_the_epoch_from_version_5_on(version: int) -> None:
    world = TransactionWorld()
    world.transactions.driver.add(world.producer, A, name="pay")
    answer = world.of(end_txn, version, committed=True)
    assert answer.error_code == 0
    known = world.transactions.driver.known("pay")
    assert known.producer_epoch == (1 if version >= 5 else 0)
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == known.producer


@pytest.mark.parametrize("version", end_txn.VERSIONS)
def test_fenced_producer_hears_of_it_in_words_that_it_knows(version: int) -> None:
    world = TransactionWorld()
    world.transactions.driver.producer("pay")
    error = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.of(end_txn, version).error_code == error


def test_client_without_write_is_refused() -> None:
    world = TransactionWorld()
    world.authorizer.forbidden.add(("WRITE", "TRANSACTIONAL_ID", "pay"))
    answer = world.of(end_txn, 5)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_server_that_is_no_broker_refuses_every_end() -> None:
    answer = World().ask(end_txn, 5, transactional_id="pay")
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
