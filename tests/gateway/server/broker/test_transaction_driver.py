"""Transactions of a whole node over its listener: begun, ended, timed out, and completed after the
process was killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.broker.transactions.events import EndTransaction
from gateway.broker.transactions.transaction import Producer
from kwire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.messages.end_txn_request import EndTxnRequest
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.messages.list_transactions_request import ListTransactionsRequest
from kwire.protocol import ErrorCode
from tests.gateway.server.broker.test_broker_node import broker, in_loop, with_topic
from tests.gateway.server.own_nodes import OwnNode
from tests.waiting import until_async

_RETRIABLE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


async def settled(node: OwnNode, message: Any, version: int) -> Any:
    """Ask until the answer is none after which clients ask again."""
    while (answer := await node.ask(message, version)).error_code in _RETRIABLE:
        pass
    return answer


async def init(node: OwnNode, name: str = "t") -> Producer:
    """Find the coordinator, which makes its topic, and become the producer of the id."""
    found: Any = None
    while found is None or found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        message = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        (found,) = (await node.ask(message, 4)).coordinators
    assert (found.error_code, found.node_id) == (0, node.raft.node_id)
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    answer = await settled(node, request, 5)
    assert answer.error_code == 0
    return Producer(answer.producer_id, answer.producer_epoch)


async def add(node: OwnNode, producer: Producer, topic: str = "t", name: str = "t") -> int:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    while True:
        (found,) = (await node.ask(request, 3)).results_by_topic_v3_and_below
        error: int = found.results_by_partition[0].partition_error_code
        if error not in _RETRIABLE:
            return error


async def end(node: OwnNode, producer: Producer, *, commits: bool = True, name: str = "t") -> Any:
    request = EndTxnRequest(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commits,
    )
    return await node.ask(request, 5)


async def state(node: OwnNode, name: str = "t") -> Any:
    (found,) = (
        await node.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0)
    ).transaction_states
    return found


@in_loop
async def test_transactional_id_goes_on_where_it_was_after_a_kill(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        producer = await init(node)
        assert await add(node, producer) == 0
        assert await add(node, producer, "none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await add(node, producer, "__transaction_state") == (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        await node.cut_off()
    async with broker(tmp_path) as node:
        await until_async_state(node, "Ongoing")
        found = await state(node)
        assert Producer(found.producer_id, found.producer_epoch) == producer
        assert [(one.topic, one.partitions) for one in found.topics] == [("t", [0])]
        listed = await settled(node, ListTransactionsRequest(state_filters=["Ongoing", "?"]), 1)
        assert [one.transactional_id for one in listed.transaction_states] == ["t"]
        assert listed.unknown_state_filters == ["?"]
        # The next producer aborts what its predecessor left open.
        assert await init(node) == Producer(producer.producer_id, producer.epoch + 2)


async def until_async_state(node: OwnNode, wanted: str, name: str = "t") -> None:
    """Wait until the transactional id is in a state."""
    while (await state(node, name)).transaction_state != wanted:
        pass


@in_loop
async def test_end_of_a_transaction_bumps_the_epoch_and_may_be_repeated(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        producer = await init(node)
        assert await add(node, producer) == 0
        first = await end(node, producer)
        assert (first.error_code, first.producer_epoch) == (0, producer.epoch + 1)
        again = await settled_end(node, producer)
        assert (again.error_code, again.producer_epoch) == (0, producer.epoch + 1)
        assert (await state(node)).transaction_state == "CompleteCommit"
        assert await add(node, producer) == ErrorCode.PRODUCER_FENCED


async def settled_end(node: OwnNode, producer: Producer) -> Any:
    while (answer := await end(node, producer)).error_code in _RETRIABLE:
        pass
    return answer


@in_loop
async def test_decision_that_is_in_the_log_is_carried_out_after_a_kill(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        producer = await init(node)
        assert await add(node, producer) == 0
        transactions: Any = node.ready.services.transactions
        # Killed between the decision and the markers.
        transactions.markers.write = lambda effect: None
        answers: list[Any] = []
        transactions.submit(EndTransaction("t", producer, True, 2), answers.append)
        await until_async(lambda: bool(answers))
        assert answers[0].error is ErrorCode.NONE
        assert (await state(node)).transaction_state == "PrepareCommit"
        await node.cut_off()
    async with broker(tmp_path) as node:
        await until_async_state(node, "CompleteCommit")


@in_loop
async def test_transaction_without_an_end_is_aborted_when_its_time_is_over(tmp_path: Path) -> None:
    quick = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 10}
    async with broker(tmp_path, **quick) as node:
        await with_topic(node)
        producer = await init(node)
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1)
        answer = await settled(node, request, 5)
        producer = Producer(answer.producer_id, answer.producer_epoch)
        assert await add(node, producer) in (0, ErrorCode.PRODUCER_FENCED)
        await until_async_state(node, "CompleteAbort")
        assert (await end(node, producer)).error_code == ErrorCode.INVALID_TXN_STATE


@in_loop
async def test_transaction_of_a_deleted_topic_is_completed(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        producer = await init(node)
        assert await add(node, producer) == 0
        topics = [DeleteTopicState(name="t")]
        deleted = await node.ask(DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6)
        assert deleted.responses[0].error_code == 0
        assert (await end(node, producer)).error_code == 0
        await until_async_state(node, "CompleteCommit")


@in_loop
async def test_id_that_no_producer_uses_expires(tmp_path: Path) -> None:
    quick = {
        "transactional_id_expiration_ms": 1,
        "transaction_remove_expired_transaction_cleanup_interval_ms": 10,
    }
    async with broker(tmp_path, **quick) as node:
        await with_topic(node)
        await init(node)
        while (await state(node)).error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            pass
