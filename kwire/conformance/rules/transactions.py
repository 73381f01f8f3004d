"""Rules of transactions (KIP-98, KIP-360, KIP-890). A transactional id cannot be deleted, so those
that use one run with --destructive only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from kwire.conformance.fetch_fixtures import batches_of, good_fetch
from kwire.conformance.fixtures import (
    LATEST,
    Partition,
    list_offset,
    own_partition,
    produce_answer,
    records,
)
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.messages.end_txn_request import EndTxnRequest
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import encode_batch

_APIS: Final = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.PRODUCE,
    ApiKey.CREATE_TOPICS,
    ApiKey.METADATA,
    ApiKey.LIST_OFFSETS,
)
_TRANSACTION: Final = 1
_READ_COMMITTED: Final = 1
_NOT_READY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
#: How long a check waits for the coordinator. The first use of a transactional id makes the topic
#: of the coordinators' states.
_READY_S: Final = 5.0

FAMILY: Final = Family(
    "transactions", "Transactions", roles=BROKER, apis=_APIS, changes=Changes.CLUSTER, since="0.11"
)


class _Producer:
    """A transactional producer of protocol version 1, which names its partitions (KIP-98)."""

    def __init__(self, probe: Probe, name: str) -> None:
        self.name = name
        self._probe = probe
        answer = probe.until(self._init, f"a producer id of {name}")
        probe.expect_error(answer.error_code, ErrorCode.NONE, where="InitProducerId")
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequence = 0

    def _init(self) -> Any:
        return _init(self._probe, self.name)

    def add(self, where: Partition) -> int:
        topic = AddPartitionsToTxnTopic(name=where.topic, partitions=[where.index])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )

        def ask() -> Any:
            answer = self._probe.call(request, self._probe.need(ApiKey.ADD_PARTITIONS_TO_TXN, 2, 3))
            [found] = answer.results_by_topic_v3_and_below
            code = found.results_by_partition[0].partition_error_code
            return None if code in _NOT_READY else (code,)

        code: int = self._probe.until(ask, "the partition in the transaction")[0]
        return code

    def send(self, where: Partition, value: str = "v") -> Any:
        batch = encode_batch(
            records(1, value), producer_id=self.producer_id, producer_epoch=self.epoch,
            base_sequence=self._sequence, is_transactional=True,
        )  # fmt: skip
        self._sequence += 1
        return produce_answer(self._probe, where, batch, transactional_id=self.name)

    def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id,
            producer_epoch=self.epoch, committed=commit,
        )  # fmt: skip
        version = self._probe.newest(ApiKey.END_TXN, at_most=4)

        def ask() -> Any:
            code = self._probe.call(request, version).error_code
            return None if code in _NOT_READY else (code,)

        code: int = self._probe.until(ask, "the end of the transaction")[0]
        return code


def _init(probe: Probe, name: str) -> Any:
    if _find_coordinator(probe, name) != ErrorCode.NONE:
        return None
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    version = probe.newest(ApiKey.INIT_PRODUCER_ID, at_most=5)
    answer = _settled(probe, lambda: probe.call(init, version))
    if answer.error_code == ErrorCode.NOT_COORDINATOR:
        probe.not_applicable("another broker coordinates the transactional id")
    return None if answer.error_code in _NOT_READY else answer


def _find_coordinator(probe: Probe, name: str) -> int:
    """Ask for the coordinator of a transactional id, which makes the topic of the states, and
    return the error code.
    """
    request = FindCoordinatorRequest(key=name, key_type=_TRANSACTION)
    answer = probe.call(request, probe.newest(ApiKey.FIND_COORDINATOR, at_most=3))
    code: int = answer.error_code
    return code


def _settled(probe: Probe, ask: Callable[[], Any]) -> Any:
    """Return the answer of ``ask``, once the coordinator is ready or ``_READY_S`` has passed."""
    ends_at = time.monotonic() + _READY_S

    def settled() -> Any:
        answer = ask()
        is_ready = answer.error_code not in (*_NOT_READY, ErrorCode.NOT_COORDINATOR)
        return answer if is_ready or time.monotonic() > ends_at else None

    return probe.until(settled, "the coordinator of transactions")


def _expect_coordinator(probe: Probe, code: int) -> None:
    """End the check as not applicable if the server has no transactions for this client."""
    if code in (*_NOT_READY, ErrorCode.NOT_COORDINATOR):
        probe.not_applicable("the server does not coordinate transactions now")
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        probe.not_applicable("the client may not use transactional ids")


def _new_producer(probe: Probe) -> _Producer:
    """Return a producer of a new transactional id. Ends the check as not applicable if the server
    takes no records: it coordinates no transactions, however long a client asks.
    """
    own_partition(probe)
    return _Producer(probe, probe.session.new_name())


def _begun(probe: Probe) -> tuple[_Producer, Partition, int]:
    """Return a producer with an open transaction of one record, its partition and offset."""
    where = own_partition(probe)
    producer = _Producer(probe, probe.session.new_name())
    probe.expect_error(producer.add(where), ErrorCode.NONE, where="AddPartitionsToTxn")
    one = producer.send(where)
    probe.expect_error(one.error_code, ErrorCode.NONE, where="Produce")
    return producer, where, one.base_offset


def _stable(probe: Probe, where: Partition) -> int:
    one = list_offset(probe, where.topic, where.index, LATEST, isolation_level=_READ_COMMITTED)
    offset: int = one.offset
    return offset


@FAMILY.rule("open-is-hidden", source="KIP-98", section="read_committed")
def open_is_hidden(probe: Probe) -> None:
    """Records of an open transaction are not given to read_committed, and the last stable offset is
    the first of them.
    """
    producer, where, offset = _begun(probe)
    one = good_fetch(probe, where, offset, isolation_level=_READ_COMMITTED)
    stable = one.last_stable_offset
    producer.end(commit=False)
    probe.expect(not one.records, "an open transaction's records are given to read_committed")
    probe.expect(stable == offset, f"the last stable offset is {stable}, not {offset}")


@FAMILY.rule("open-is-read-uncommitted", source="KIP-98", section="read_uncommitted")
def open_is_read_uncommitted(probe: Probe) -> None:
    """Records of an open transaction are given to read_uncommitted."""
    producer, where, offset = _begun(probe)
    one = good_fetch(probe, where, offset)
    producer.end(commit=False)
    probe.expect(bool(one.records), "read_uncommitted gets no record of an open transaction")


@FAMILY.rule("commit", source="KIP-98", section="EndTxn")
def commit(probe: Probe) -> None:
    """Records of a committed transaction are given to read_committed, a control batch with a marker
    follows them, and no aborted transaction is named.
    """
    producer, where, offset = _begun(probe)
    probe.expect_error(producer.end(commit=True), ErrorCode.NONE, where="EndTxn")
    probe.until(lambda: _stable(probe, where) > offset + 1, "the marker of the transaction")
    one = good_fetch(probe, where, offset, isolation_level=_READ_COMMITTED)
    kinds = [batch.is_control for batch in batches_of(probe, one)]
    probe.expect(kinds == [False, True], f"control bits of the batches are {kinds}")
    probe.expect(not one.aborted_transactions, "a committed transaction is named as aborted")


@FAMILY.rule("abort", source="KIP-98", section="AbortedTransactions")
def abort(probe: Probe) -> None:
    """An aborted transaction is named to read_committed with producer id and first offset."""
    producer, where, offset = _begun(probe)
    probe.expect_error(producer.end(commit=False), ErrorCode.NONE, where="EndTxn")
    probe.until(lambda: _stable(probe, where) > offset + 1, "the marker of the transaction")
    one = good_fetch(probe, where, offset, isolation_level=_READ_COMMITTED)
    found = [(each.producer_id, each.first_offset) for each in one.aborted_transactions or ()]
    probe.expect(found == [(producer.producer_id, offset)], f"aborted transactions are {found}")


@FAMILY.rule("fenced", source="KIP-98", section="Fencing")
def fenced(probe: Probe) -> None:
    """A second InitProducerId of the same transactional id raises the epoch; the first producer
    can end nothing any more.
    """
    first = _new_producer(probe)
    second = _Producer(probe, first.name)
    probe.expect(
        (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1),
        f"epoch {first.epoch} is followed by {second.epoch}",
    )
    code = first.end(commit=True)
    probe.expect_error(code, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


@FAMILY.rule("end-without-begin", source="TransactionCoordinator", section="INVALID_TXN_STATE")
def end_without_begin(probe: Probe) -> None:
    """EndTxn without a transaction has error INVALID_TXN_STATE."""
    producer = _new_producer(probe)
    probe.expect_error(producer.end(commit=True), ErrorCode.INVALID_TXN_STATE)


@FAMILY.rule(
    "unknown-transactional-id",
    source="TransactionCoordinator",
    section="INVALID_PRODUCER_ID_MAPPING",
)
def unknown_transactional_id(probe: Probe) -> None:
    """EndTxn of a transactional id that no producer has has error INVALID_PRODUCER_ID_MAPPING."""
    _new_producer(probe)
    request = EndTxnRequest(transactional_id=NO_NAME, producer_id=1, committed=True)
    version = probe.newest(ApiKey.END_TXN, at_most=4)
    code = _settled(probe, lambda: probe.call(request, version)).error_code
    if code == ErrorCode.NOT_COORDINATOR:
        probe.not_applicable("another broker coordinates the transactional id")
    probe.expect_error(code, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


@FAMILY.rule(
    "timeout-too-long",
    source="TransactionCoordinator",
    section="INVALID_TRANSACTION_TIMEOUT",
    changes=Changes.NOTHING,
    apis=(ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR),
)
def timeout_too_long(probe: Probe) -> None:
    """InitProducerId with a timeout of 24 days has error INVALID_TRANSACTION_TIMEOUT."""
    request = InitProducerIdRequest(transactional_id=NO_NAME, transaction_timeout_ms=2_000_000_000)
    _find_coordinator(probe, NO_NAME)
    code = _settled(probe, lambda: probe.call(request)).error_code
    _expect_coordinator(probe, code)
    probe.expect_error(code, ErrorCode.INVALID_TRANSACTION_TIMEOUT)


@FAMILY.rule(
    "empty-transactional-id",
    source="TransactionCoordinator",
    section="INVALID_REQUEST",
    changes=Changes.NOTHING,
    apis=(ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR),
)
def empty_transactional_id(probe: Probe) -> None:
    """InitProducerId with an empty transactional id has error INVALID_REQUEST."""
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    _find_coordinator(probe, NO_NAME)
    code = _settled(probe, lambda: probe.call(request)).error_code
    _expect_coordinator(probe, code)
    probe.expect_error(code, ErrorCode.INVALID_REQUEST)
