"""The transaction coordinator answers as Kafka does, and has the right markers written."""

from __future__ import annotations

import pytest

from gateway.base.slices import run
from gateway.broker.transactions.effects import WriteMarkers
from gateway.broker.transactions.events import (
    AbortTimedOut,
    AddPartitions,
    EndTransaction,
    InitProducer,
    ProducerResult,
    VerifyPartitions,
)
from gateway.broker.transactions.transaction import LAST_EPOCH, Producer, TransactionState
from gateway.broker.transactions.transaction_log import TransactionLog
from kwire.protocol import ErrorCode
from tests.gateway.broker.transactions.driver import (
    EPOCH,
    EXPIRATION_MS,
    TIMEOUT_MS,
    A,
    B,
    Driver,
    Marker,
)


def test_new_id_gets_a_producer_with_epoch_zero() -> None:
    driver = Driver()
    assert driver.init() == (ErrorCode.NONE, 1001, 0)
    assert driver.known().state is TransactionState.EMPTY
    assert driver.folded() == {"t": driver.known()}


def test_next_producer_of_an_id_fences_the_one_before() -> None:
    driver = Driver()
    first, second = driver.producer(), driver.producer()
    assert second == (first.producer_id, first.epoch + 1)
    assert driver.add(first, A) is ErrorCode.PRODUCER_FENCED
    assert driver.end(first).error is ErrorCode.PRODUCER_FENCED
    assert driver.add(second, A) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (InitProducer("", TIMEOUT_MS), ErrorCode.INVALID_REQUEST),
        (InitProducer("t", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducer("t", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (
            InitProducer("t", TIMEOUT_MS, is_two_phase=True),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (InitProducer("t", TIMEOUT_MS, keeps_prepared=True), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_refused_init_has_its_error(event: InitProducer, error: ErrorCode) -> None:
    driver = Driver()
    assert driver.ask(event) == ProducerResult(error)
    assert driver.folded() == {}


def test_commit_of_version_2_bumps_the_epoch_and_writes_markers_with_it() -> None:
    driver = Driver()
    producer = driver.producer()
    assert driver.add(producer, A, B, version=2) is ErrorCode.NONE
    assert driver.end(producer) == (ErrorCode.NONE, producer.producer_id, 1)
    bumped = Producer(producer.producer_id, 1)
    assert driver.markers == {A: [Marker(bumped, True)], B: [Marker(bumped, True)]}
    assert driver.known().state is TransactionState.COMPLETE_COMMIT
    assert driver.known().partitions == frozenset()


def test_commit_of_version_0_keeps_the_epoch() -> None:
    driver = Driver(level=0)
    producer = driver.producer()
    driver.add(producer, A)
    assert driver.end(producer, version=0) == (ErrorCode.NONE, *producer)
    assert driver.markers == {A: [Marker(producer, True)]}
    assert driver.end(producer, version=0).error is ErrorCode.NONE
    assert driver.end(producer, version=0, commits=False).error is ErrorCode.INVALID_TXN_STATE


def test_end_that_is_repeated_gets_the_same_answer() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, version=2)
    first = driver.end(producer)
    assert driver.end(producer) == first
    assert driver.end(producer, commits=False).error is ErrorCode.INVALID_TXN_STATE
    assert len(driver.markers[A]) == 1


def test_end_without_a_transaction_is_taken_as_an_abort_alone() -> None:
    driver = Driver()
    producer = driver.producer()
    assert driver.end(producer).error is ErrorCode.INVALID_TXN_STATE
    assert driver.end(producer, commits=False) == (ErrorCode.NONE, producer.producer_id, 1)
    assert driver.known().state is TransactionState.COMPLETE_ABORT
    assert driver.end(producer._replace(epoch=0), version=0).error is ErrorCode.PRODUCER_FENCED


def test_init_during_a_transaction_aborts_it_and_fences_its_producer() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, version=2)
    assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.markers == {A: [Marker(Producer(producer.producer_id, 1), False)]}
    assert driver.init() == (ErrorCode.NONE, producer.producer_id, 2)
    assert driver.end(producer).error is ErrorCode.PRODUCER_FENCED


def test_init_during_a_transaction_of_version_0_aborts_with_a_fencing_epoch() -> None:
    driver = Driver(level=0)
    producer = driver.producer()
    driver.add(producer, A)
    assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.markers == {A: [Marker(Producer(producer.producer_id, 1), False)]}
    assert driver.end(producer, version=0).error is ErrorCode.PRODUCER_FENCED


def test_producer_that_recovers_gets_the_next_epoch_and_the_same_again() -> None:
    driver = Driver()
    producer = driver.producer()
    again = driver.init(expected=producer)
    assert again == (ErrorCode.NONE, producer.producer_id, 1)
    assert driver.init(expected=producer) == again
    other = driver.producer()
    assert driver.init(expected=producer).error is ErrorCode.PRODUCER_FENCED
    assert driver.init(expected=other).error is ErrorCode.NONE
    stranger = Producer(77, 0)
    assert driver.init(expected=stranger).error is ErrorCode.PRODUCER_FENCED


def exhausted(driver: Driver) -> Producer:
    """Make the newest epoch the last one of its producer id."""
    driver.producer()
    return driver.skip_to_epoch(LAST_EPOCH)


def test_exhausted_epochs_give_the_next_producer_another_id() -> None:
    driver = Driver()
    last = exhausted(driver)
    fresh = driver.init()
    assert fresh == (ErrorCode.NONE, 1002, 0)
    assert driver.init(expected=last).error is ErrorCode.PRODUCER_FENCED


def test_recovery_of_an_exhausted_producer_may_be_asked_for_again() -> None:
    driver = Driver()
    last = exhausted(driver)
    first = driver.init(expected=last)
    assert first == (ErrorCode.NONE, 1002, 0)
    assert driver.init(expected=last) == first


def test_end_with_the_last_epoch_gives_another_id() -> None:
    driver = Driver()
    last = exhausted(driver)
    driver.add(last, A, version=2)
    first = driver.end(last)
    assert first == (ErrorCode.NONE, 1002, 0)
    assert driver.markers == {A: [Marker(Producer(last.producer_id, LAST_EPOCH + 1), True)]}
    assert driver.end(last) == first


def test_transaction_is_verified_for_its_partitions_alone() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A)
    verified = driver.ask(VerifyPartitions("t", producer, frozenset({A, B})))
    assert verified == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    other = producer._replace(epoch=9)
    assert driver.ask(VerifyPartitions("t", other, frozenset({A}))) == {
        A: ErrorCode.PRODUCER_FENCED
    }
    stranger = producer._replace(producer_id=9)
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.ask(VerifyPartitions("t", stranger, frozenset({A}))) == {A: mapping}
    assert driver.ask(VerifyPartitions("?", producer, frozenset({A}))) == {A: mapping}


def test_partitions_that_are_known_need_no_record() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, B)
    appends = driver.appends
    assert driver.add(producer, A) is ErrorCode.NONE
    assert driver.appends == appends


def test_request_during_a_transition_is_told_to_wait() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.is_slow = True
    waiting = driver.send(AddPartitions("t", producer, frozenset({A})))
    for event in (
        InitProducer("t", TIMEOUT_MS),
        AddPartitions("t", producer, frozenset({B})),
        EndTransaction("t", producer, True, 2),
    ):
        token = driver.send(event)
        driver.step(-1)
        assert driver.answers[token] == event.failed(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert waiting not in driver.answers, "its record is not in the log"
    driver.step(0)
    driver.step(0)
    assert driver.answers[waiting] is ErrorCode.NONE


def test_failed_append_changes_nothing_and_is_answered() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.append_error = lambda: ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.add(producer, A) is ErrorCode.NOT_COORDINATOR
    assert driver.init("new").error is ErrorCode.NOT_COORDINATOR
    driver.append_error = lambda: ErrorCode.NONE
    assert driver.known().state is TransactionState.EMPTY
    assert driver.add(producer, A) is ErrorCode.NONE
    assert set(driver.folded()) == {"t"}


def test_markers_that_fail_are_written_until_all_are() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, B, version=2)
    failures = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
    driver.marker_error = lambda where: (
        next(failures, ErrorCode.NONE) if where == B else (ErrorCode.NONE)
    )
    driver.end(producer)
    assert [len(some) for some in driver.markers.values()] == [1, 1], "none is written twice"
    assert driver.known().state is TransactionState.COMPLETE_COMMIT


def test_deleted_topic_needs_no_marker() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, version=2)
    driver.marker_error = lambda where: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    driver.end(producer)
    assert driver.known().state is TransactionState.COMPLETE_COMMIT


def test_marker_that_is_refused_for_good_leaves_the_transaction_prepared() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, B, version=2)
    driver.marker_error = lambda where: ErrorCode.TRANSACTION_COORDINATOR_FENCED
    driver.end(producer)
    assert driver.known().state is TransactionState.PREPARE_COMMIT
    assert driver.init().error is ErrorCode.CONCURRENT_TRANSACTIONS


def test_completion_that_cannot_be_appended_is_appended_later() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, version=2)
    outcomes = iter([ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
    driver.append_error = lambda: next(outcomes, ErrorCode.NONE)
    assert driver.end(producer).error is ErrorCode.NONE
    assert driver.known().state is TransactionState.COMPLETE_COMMIT
    assert len(driver.markers[A]) == 1


@pytest.mark.parametrize("commits", [True, False])
def test_prepared_transaction_is_completed_after_a_restart(commits: bool) -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, B, version=2)
    driver.is_slow = True
    driver.send(EndTransaction("t", producer, commits, 2))
    driver.step(0)  # the decision is in the log, and nothing after it
    assert driver.known().state.is_prepared
    driver.start()
    assert [type(effect) for effect in driver.effects] == [WriteMarkers]
    driver.is_slow = False
    driver.take([])
    bumped = Marker(Producer(producer.producer_id, 1), commits)
    assert driver.markers == {A: [bumped], B: [bumped]}
    assert driver.end(producer, commits=commits) == (ErrorCode.NONE, producer.producer_id, 1)


def test_transaction_whose_time_is_over_is_aborted_and_its_producer_fenced() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, version=2)
    driver.now_ms += TIMEOUT_MS
    driver.tick()
    assert driver.known().state is TransactionState.ONGOING
    driver.now_ms += 1
    driver.tick()
    assert driver.markers == {A: [Marker(Producer(producer.producer_id, 1), False)]}
    assert driver.end(producer).error is ErrorCode.INVALID_TXN_STATE
    assert driver.add(producer, A) is ErrorCode.PRODUCER_FENCED


def test_transactions_are_counted_by_state_with_the_partitions_that_lack_a_marker() -> None:
    driver = Driver()
    driver.producer("idle")
    driver.add(driver.producer("open"), A, name="open")
    ends = driver.producer("ends")
    driver.add(ends, A, B, name="ends")
    driver.marker_error = lambda where: (
        ErrorCode.INVALID_PRODUCER_EPOCH if where == B else ErrorCode.NONE
    )
    assert driver.end(ends, name="ends").error is ErrorCode.NONE
    assert driver.coordinator.counts is None
    driver.tick()
    states = TransactionState
    assert driver.coordinator.counts == (
        {states.EMPTY: 1, states.ONGOING: 1, states.PREPARE_COMMIT: 1},
        1,
    )


def test_timeout_that_comes_after_the_end_aborts_nothing() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.add(producer, A, version=2)
    driver.end(producer)
    late = driver.ask(AbortTimedOut("t", producer))
    assert late.error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.known().state is TransactionState.COMPLETE_COMMIT


def test_idle_id_expires_with_a_tombstone() -> None:
    driver = Driver()
    driver.producer()
    busy = driver.producer("busy")
    driver.add(busy, A, name="busy")
    driver.now_ms += EXPIRATION_MS - 1
    driver.expire()
    assert set(driver.folded()) == {"t", "busy"}
    driver.now_ms += 1
    driver.expire()
    assert set(driver.folded()) == {"busy"}
    assert driver.init() == (ErrorCode.NONE, 1003, 0)


def test_partition_that_is_given_up_answers_those_who_wait() -> None:
    driver = Driver()
    producer = driver.producer()
    driver.is_slow = True
    waiting = driver.send(AddPartitions("t", producer, frozenset({A})))
    driver.effects.clear()
    driver.is_slow = False
    driver.take(driver.coordinator.resign(0))
    assert driver.answers[waiting] is ErrorCode.NOT_COORDINATOR
    assert driver.init().error is ErrorCode.NOT_COORDINATOR
    driver.take(driver.coordinator.on_appended(2, ErrorCode.NONE, driver.moment))  # too late
    driver.coordinator.log.begin(0, EPOCH + 1)
    assert driver.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_partition_that_was_given_up_while_it_loaded_is_not_taken() -> None:
    driver = Driver()
    driver.producer()
    stale = driver.coordinator.log.begin(0, EPOCH + 1)
    driver.coordinator.log.begin(0, EPOCH + 2)
    assert run(driver.coordinator.load(stale, {}, driver.moment)) == []
    assert driver.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("transactional_id", "partition"),
    # As Utils.abs("...".hashCode) % 50 of Kafka.
    [("", 0), ("t", 16), ("transactional", 45), ("polygenelubricants", 0), ("\U0001f600", 49)],
)
def test_partition_of_an_id_is_that_of_kafka(transactional_id: str, partition: int) -> None:
    log = TransactionLog()
    log.partition_count = 50
    assert log.partition_of(transactional_id) == partition
