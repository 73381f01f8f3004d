"""The seeded faults that need records, transactions or fetch sessions, each with its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.header import decode_request_header, peek
from kwire.messages.fetch_response import AbortedTransaction, FetchableTopicResponse, PartitionData
from kwire.protocol import ApiKey
from kwire.registry import request_type
from tests.conformance_faults.broker_changes import error, every, no_error, top_error
from tests.conformance_faults.changes import Row, faults_of, when
from tests.conformance_faults.proxy import Changed, Fault

_PRODUCE: Final = ApiKey.PRODUCE
_FETCH: Final = ApiKey.FETCH


class ChangedRequest(Fault):
    """The server gets the requests of one API with a change."""

    def __init__(self, api: int, change: Callable[[Any], None]) -> None:
        self._api, self._change = api, change

    def request(self, data: bytes) -> bytes:
        api, version, _ = peek(data)
        if api != self._api:
            return data
        _, start = decode_request_header(data)
        message = request_type(api).decode(data[start:], version)
        self._change(message)
        return data[:start] + message.encode(version)


def _answer_acks_none(request: Any) -> None:
    request.acks = request.acks or 1


def _never_wait(request: Any) -> None:
    request.max_wait_ms = 0


def _flipped(data: Any) -> bytes:
    return bytes(data)[:-1] + bytes([bytes(data)[-1] ^ 1]) if data else b""


def _is_incremental(request: Any) -> bool:
    return bool(request.session_epoch > 0)


def _forgets(request: Any) -> bool:
    return bool(request.forgotten_topics_data)


def _remember(answer: Any, request: Any) -> None:
    answer.responses = [FetchableTopicResponse(partitions=[PartitionData()])]


def _by_match(request: Any) -> bool:
    return bool(request.pattern_type_filter == 2)


PRODUCE_FAULTS: Final[list[Row]] = [
    *faults_of(
        _PRODUCE,
        ("every batch is at 0", "produce.offsets-count", every(base_offset=0)),
        ("no offset for acks 1", "produce.acks-one", every(base_offset=-1)),
        ("any acks", "produce.acks-invalid", no_error(21)),
        ("records for unknown topics", "produce.unknown-topic", no_error(3, 100)),
        ("any CRC", "produce.crc-wrong", no_error(2)),
        ("any count", "produce.count-wrong", no_error(87)),
        ("any last offset", "produce.last-offset-wrong", no_error(87)),
        ("control batches of clients", "produce.control-batch", no_error(87)),
        ("two batches", "produce.two-batches", no_error(87)),
        ("batches of any size", "produce.too-large", no_error(10)),
        ("no record errors", "produce.no-key-in-compacted-topic", every(record_errors=[])),
        ("an append time for all", "produce.create-time", every(log_append_time_ms=5)),
        ("no append time", "produce.log-append-time", every(log_append_time_ms=-1)),
        ("sequence numbers with gaps", "idempotence.sequence-gap", no_error(45)),
        ("old producer epochs", "idempotence.old-producer-epoch", no_error(47)),
        ("any first sequence number", "idempotence.new-epoch-begins-at-zero", no_error(45)),
    ),
    *faults_of(
        _FETCH,
        ("other bytes", "produce.bytes-come-back", every(records=_flipped)),
        ("other bytes of gzip", "produce.gzip", every(records=_flipped)),
        ("other bytes of snappy", "produce.snappy", every(records=_flipped)),
        ("other bytes of lz4", "produce.lz4", every(records=_flipped)),
        ("other bytes of zstd", "produce.zstd", every(records=_flipped)),
        ("nothing to read", "fetch.whole-partition-is-read", every(records=b"")),
    ),
    *faults_of(
        ApiKey.DELETE_RECORDS,
        ("no low watermark", "produce.delete-records", every(low_watermark=0)),
        ("no low watermark at the end", "produce.delete-records-to-end",
         every(low_watermark=0)),
        ("deletion beyond the end", "produce.delete-records-beyond-end", no_error(1)),
    ),
    *faults_of(
        ApiKey.INIT_PRODUCER_ID,
        ("one producer id for all", "idempotence.producer-ids-differ", every(producer_id=5)),
    ),
    *faults_of(
        ApiKey.LIST_OFFSETS,
        ("a duplicate is in the log", "idempotence.duplicate", every(offset=3)),
    ),
    ("acks 0 are answered", "produce.acks-none", ChangedRequest(_PRODUCE, _answer_acks_none)),
    ("Fetch does not wait", "fetch.waits-for-bytes", ChangedRequest(_FETCH, _never_wait)),
]  # fmt: skip

VERSION_FAULTS: Final[list[Row]] = [
    *faults_of(
        ApiKey.API_VERSIONS,
        ("versions from 0 on", "api-versions.no-removed-versions", every(min_version=0)),
    ),
]  # fmt: skip

SESSION_FAULTS: Final[list[Row]] = [
    *faults_of(
        _FETCH,
        ("closed sessions go on", "fetch-sessions.closed-session", no_error(70)),
        ("the next epoch is refused", "fetch-sessions.epochs-count",
         when(_is_incremental, top_error(71))),
        ("forgotten partitions come back", "fetch-sessions.forgotten",
         when(_forgets, _remember)),
        ("another session id", "fetch-sessions.incremental",
         when(_is_incremental, every(session_id=3))),
        ("records are left out", "fetch-sessions.incremental-with-records",
         when(_is_incremental, every(responses=[]))),
        ("any session epoch", "fetch-sessions.wrong-epoch", no_error(71)),
    ),
]  # fmt: skip

TRANSACTION_FAULTS: Final[list[Row]] = [
    *faults_of(
        _FETCH,
        ("open transactions are stable", "transactions.open-is-hidden",
         every(last_stable_offset=100)),
        ("open transactions are hidden", "transactions.open-is-read-uncommitted",
         every(records=b"")),
        ("commits are aborted", "transactions.commit",
         every(aborted_transactions=[AbortedTransaction()])),
        ("aborts are not named", "transactions.abort", every(aborted_transactions=[])),
    ),
    *faults_of(
        ApiKey.END_TXN,
        ("fenced producers go on", "transactions.fenced", no_error(47, 90)),
        ("an end without a begin", "transactions.end-without-begin", no_error(48)),
        ("an end of an unknown id", "transactions.unknown-transactional-id", no_error(49)),
    ),
    *faults_of(
        ApiKey.INIT_PRODUCER_ID,
        ("any timeout", "transactions.timeout-too-long", no_error(50)),
        ("empty transactional ids", "transactions.empty-transactional-id", no_error(42)),
    ),
]  # fmt: skip


class _Hidden(Changed):
    """Changes responses so that a rule waits in vain: it ends by its time."""

    time_s = 5.0


ACL_FAULTS: Final[list[Row]] = [
    ("ACLs twice", "acls.created-twice",
     _Hidden(ApiKey.DESCRIBE_ACLS, every(acls=lambda acls: [*acls, *acls]))),
    ("another host", "acls.created-is-described",
     _Hidden(ApiKey.DESCRIBE_ACLS, every(host="other"))),
    ("no match of a prefix", "acls.prefix-matches",
     _Hidden(ApiKey.DESCRIBE_ACLS, when(_by_match, every(resources=[])))),
    *faults_of(
        ApiKey.DELETE_ACLS,
        ("deleted ACLs are not named", "acls.deleted-is-named", every(matching_acls=[])),
        ("an error for nothing to delete", "acls.delete-nothing", error(42)),
    ),
    *faults_of(
        ApiKey.CREATE_ACLS,
        ("ACLs of no name", "acls.empty-name", no_error(42)),
        ("ACLs of another cluster", "acls.cluster-name", no_error(42)),
    ),
]  # fmt: skip
