"""InitProducerId with a transactional id, at every version."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gateway.handlers.apis import find_coordinator, init_producer_id
from kwire.protocol import ErrorCode
from tests.gateway.broker.transactions.driver import TIMEOUT_MS
from tests.gateway.handlers.transaction_world import TransactionWorld
from tests.gateway.handlers.world import World

NEW: Final[dict[str, Any]] = {
    "producer_id": -1,
    "producer_epoch": -1,
    "transaction_timeout_ms": TIMEOUT_MS,
}


@pytest.mark.parametrize("version", init_producer_id.VERSIONS)
def test_next_producer_of_an_id_gets_the_next_epoch(version: int) -> None:
    world = TransactionWorld()
    fields = NEW if version >= 3 else {"transaction_timeout_ms": TIMEOUT_MS}
    answer = world.ask(init_producer_id, version, transactional_id="pay", **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
        0,
        world.producer.producer_id,
        1,
    )


@pytest.mark.parametrize("version", [3, 4, 5])
def test_producer_that_recovers_keeps_its_id_and_a_fenced_one_hears_of_it(version: int) -> None:
    world = TransactionWorld()
    again = world.of(init_producer_id, version, transaction_timeout_ms=TIMEOUT_MS)
    assert (again.producer_id, again.producer_epoch) == (world.producer.producer_id, 1)
    world.transactions.driver.producer("pay")
    error = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    answer = world.of(init_producer_id, version, transaction_timeout_ms=TIMEOUT_MS)
    assert (answer.error_code, answer.producer_id) == (error, -1)


@pytest.mark.parametrize("half", [{"producer_id": -1}, {"producer_epoch": -1}])
def test_producer_of_which_one_half_is_missing_is_refused(half: dict[str, int]) -> None:
    world = TransactionWorld()
    answer = world.of(init_producer_id, 5, transaction_timeout_ms=TIMEOUT_MS, **half)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_client_without_write_of_the_id_is_refused() -> None:
    world = TransactionWorld()
    world.authorizer.forbidden.add(("WRITE", "TRANSACTIONAL_ID", "pay"))
    answer = world.ask(init_producer_id, 5, transactional_id="pay", **NEW)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_coordinator_of_an_id_is_found_by_those_that_may_describe_it() -> None:
    world = TransactionWorld()

    def find(key: str = "pay") -> tuple[int, int]:
        answer = world.ask(find_coordinator, 6, key_type=1, coordinator_keys=[key])
        return answer.coordinators[0].error_code, answer.coordinators[0].port

    assert find() == (0, 9092)
    world.transactions.coordinator = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert find() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    world.authorizer.forbidden.add(("DESCRIBE", "TRANSACTIONAL_ID", "secret"))
    assert find("secret") == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)


def test_server_that_is_no_broker_refuses_every_transactional_id() -> None:
    answer = World().ask(init_producer_id, 5, transactional_id="pay", **NEW)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
