"""ListTransactions shows the transactional ids that the filters take and the client may see."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import list_transactions
from kwire.messages.list_transactions_request import ListTransactionsRequest
from kwire.protocol import ErrorCode
from tests.gateway.broker.transactions.driver import A
from tests.gateway.handlers.transaction_world import TransactionWorld
from tests.gateway.handlers.world import World


def listed(world: Any, version: int = 1, **filters: Any) -> list[str]:
    answer = world.ask(list_transactions, version, **filters)
    assert answer.error_code == 0
    return [one.transactional_id for one in answer.transaction_states]


@pytest.fixture
def world() -> TransactionWorld:
    """The id ``pay`` is idle, ``ship`` has an open transaction."""
    world = TransactionWorld()
    driver = world.transactions.driver
    driver.add(driver.producer("ship"), A, name="ship")
    return world


@pytest.mark.parametrize("version", list_transactions.VERSIONS)
def test_every_id_is_listed_with_its_state(world: TransactionWorld, version: int) -> None:
    answer = world.ask(list_transactions, version)
    found = [(one.transactional_id, one.transaction_state) for one in answer.transaction_states]
    assert found == [("pay", "Empty"), ("ship", "Ongoing")]


def test_filters_leave_the_others_out(world: TransactionWorld) -> None:
    assert listed(world, state_filters=["Ongoing"]) == ["ship"]
    assert listed(world, state_filters=["Lost"]) == []
    assert listed(world, producer_id_filters=[world.producer.producer_id]) == ["pay"]
    now_ms = world.context(1).wall_ms
    age_ms = now_ms - world.transactions.driver.now_ms
    assert listed(world, duration_filter=age_ms - 1) == ["pay", "ship"]
    assert listed(world, duration_filter=age_ms) == ["pay"], "it has no start"


def test_pattern_takes_the_ids_that_it_matches_as_a_whole(world: TransactionWorld) -> None:
    assert listed(world, 2, transactional_id_pattern="p.*|x") == ["pay"]
    assert listed(world, 2, transactional_id_pattern="a") == []
    assert listed(world, 2, transactional_id_pattern="") == ["pay", "ship"]
    assert listed(world, 2, transactional_id_pattern=None) == ["pay", "ship"]
    answer = world.ask(list_transactions, 2, transactional_id_pattern="(")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.transaction_states == []


def test_versions_are_those_of_kafka() -> None:
    assert list_transactions.VERSIONS == ListTransactionsRequest.VERSIONS


def test_ids_that_the_client_may_not_describe_are_left_out(world: TransactionWorld) -> None:
    world.authorizer.forbidden.add(("DESCRIBE", "TRANSACTIONAL_ID", "ship"))
    assert listed(world) == ["pay"]


def test_list_waits_until_every_partition_is_loaded(world: TransactionWorld) -> None:
    world.transactions.driver.coordinator.log.begin(0, 9)
    answer = world.ask(list_transactions, 1)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", list_transactions.VERSIONS)
def test_server_that_is_no_broker_has_none(version: int) -> None:
    assert listed(World(), version) == []


def test_unknown_state_filters_are_returned() -> None:
    answer = World().ask(list_transactions, 0, state_filters=["Ongoing", "ongoing", "Lost", "Lost"])
    assert answer.unknown_state_filters == ["ongoing", "Lost"]
