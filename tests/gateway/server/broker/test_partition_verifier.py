"""Questions to transaction coordinators on other brokers, as one request, and its errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import pytest

from gateway.broker.transactions.transaction import Producer, TopicPartition
from gateway.server.broker.partition_verifier import Question, VerificationRequests
from kwire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kwire.protocol import ErrorCode

_A0, _A1, _B2 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2)
_Errors = Mapping[tuple[str, int], ErrorCode]


def question(
    name: str, *partitions: TopicPartition, adds: bool = False
) -> tuple[Question, list[_Errors]]:
    heard: list[_Errors] = []
    return Question(name, Producer(5, 3), frozenset(partitions), adds, heard.append), heard


def response(name: str, topic: str, *codes: int) -> AddPartitionsToTxnResult:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    by_topic = [AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)]
    return AddPartitionsToTxnResult(transactional_id=name, topic_results=by_topic)


@pytest.mark.parametrize("version", [4, 5])
def test_questions_are_one_request_that_brokers_can_read(version: int) -> None:
    kind = VerificationRequests()
    first, second = question("x", _A1, _B2, _A0)[0], question("y", _A0, adds=True)[0]
    sent = kind.request([first, second])
    read = type(sent).decode(sent.encode(version), version)
    assert [
        (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only)
        for one in read.transactions
    ] == [("x", 5, 3, True), ("y", 5, 3, False)]
    topics = [(one.name, one.partitions) for one in read.transactions[0].topics]
    assert topics == [("a", [0, 1]), ("b", [2])]


def test_second_question_of_a_transactional_id_waits_for_the_next_request() -> None:
    waiting = deque([question(name, _A0)[0] for name in ("x", "y", "x", "z")])
    kind = VerificationRequests()
    assert [one.transactional_id for one in kind.take(waiting)] == ["x", "y"]
    assert [one.transactional_id for one in kind.take(waiting)] == ["x", "z"]


def test_request_is_bounded_by_its_partitions() -> None:
    many = [TopicPartition("a", number) for number in range(3000)]
    waiting = deque([question(name, *many)[0] for name in "xyz"])
    assert len(VerificationRequests().take(waiting)) == 1


def test_each_question_hears_the_errors_of_its_partitions() -> None:
    (one, of_one), (other, of_other) = question("x", _A0, _A1), question("y", _A0)
    code = ErrorCode.TRANSACTION_ABORTABLE
    answer = AddPartitionsToTxnResponse(
        results_by_transaction=[response("y", "a", 0), response("x", "a", 0, code)]
    )
    VerificationRequests().answered([one, other], answer)
    assert of_one == [{_A0: ErrorCode.NONE, _A1: code}]
    assert of_other == [{_A0: ErrorCode.NONE}]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, ErrorCode.NETWORK_EXCEPTION),
        (AddPartitionsToTxnResponse(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (AddPartitionsToTxnResponse(error_code=31_000), ErrorCode.UNKNOWN_SERVER_ERROR),
        (
            AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            ErrorCode.INVALID_TXN_STATE,
        ),
        (
            AddPartitionsToTxnResponse(results_by_transaction=[response("x", "a", 31_000)]),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_partition_without_an_answer_is_not_verified(
    answer: AddPartitionsToTxnResponse | None, error: ErrorCode
) -> None:
    one, heard = question("x", _A0)
    VerificationRequests().answered([one], answer)
    assert heard == [{_A0: error}]
