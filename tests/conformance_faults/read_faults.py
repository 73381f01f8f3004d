"""The seeded faults of a broker in Metadata, ListOffsets and Fetch, each with its rule."""

from __future__ import annotations

from typing import Any, Final

from kwire.messages.fetch_response import AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch
from kwire.messages.metadata_response import MetadataResponseTopic
from kwire.protocol import ApiKey
from kwire.uuid import ZERO_UUID, Uuid
from tests.conformance_faults.broker_changes import Slow, every, no_error, top_error
from tests.conformance_faults.changes import Row, faults_of, when
from tests.conformance_faults.proxy import Changed

_METADATA: Final = ApiKey.METADATA
_LIST: Final = ApiKey.LIST_OFFSETS
_FETCH: Final = ApiKey.FETCH
#: Within the time of a probe, and longer than a request that should not have waited.
_SLOW_S: Final = 3.4


def _all_topics(request: Any) -> bool:
    return request.topics is None


def _no_topics(request: Any) -> bool:
    return request.topics is not None and len(request.topics) == 0


def _invent(answer: Any, request: Any) -> None:
    answer.topics = [MetadataResponseTopic(name="invented")]


def _drop_topic(answer: Any, request: Any) -> None:
    answer.topics = list(answer.topics)[1:]


def _repeat_topic(answer: Any, request: Any) -> None:
    answer.topics = [*answer.topics, *answer.topics]


def _not_internal(answer: Any, request: Any) -> None:
    answer.topics[0].name, answer.topics[0].is_internal = "__consumer_offsets", False


METADATA_FAULTS: Final[list[Row]] = [
    *faults_of(
        _METADATA,
        ("a topic is left out of all", "metadata.null-means-all",
         when(_all_topics, every(topics=[]))),
        ("no topics are all topics", "metadata.empty-means-none", when(_no_topics, _invent)),
        ("unknown topics are there", "metadata.unknown-topic", no_error(3)),
        ("unknown topics are made", "metadata.unknown-topic-stays-unknown", no_error(3)),
        ("invalid names are unknown", "metadata.invalid-name", no_error(17)),
        ("one of two topics", "metadata.answers-what-was-asked", _drop_topic),
        ("a topic twice", "metadata.asked-twice", _repeat_topic),
        ("another name for an id", "metadata.topic-by-id", every(name="other")),
        ("unknown ids are there", "metadata.unknown-topic-id", no_error(100)),
        ("topics without ids", "metadata.ids-are-set", every(topic_id=ZERO_UUID)),
        ("a broker without a port", "metadata.brokers-are-nodes", every(port=0)),
        ("a controller that is no broker", "metadata.controller-is-a-broker",
         every(controller_id=99)),
        ("a cluster without an id", "metadata.cluster-id", every(cluster_id="")),
        ("a leader that is no replica", "metadata.partitions-are-whole", every(leader_id=77)),
        ("a leader that is no broker", "metadata.leader-is-a-broker", every(brokers=[])),
        ("no leader epochs", "metadata.leader-epoch", every(leader_epoch=-1)),
        ("operations for all", "metadata.operations-not-asked",
         every(topic_authorized_operations=0)),
        ("operations for none", "metadata.operations-asked",
         every(topic_authorized_operations=-(1 << 31))),
        ("operations of the cluster for all", "metadata.cluster-operations",
         every(cluster_authorized_operations=0)),
        ("a negative throttle time of Metadata", "metadata.throttle-time",
         every(throttle_time_ms=-1)),
        ("an internal topic that is none", "metadata.internal-topics", _not_internal),
    ),
    ("no topics in version 0", "metadata.v0-empty-means-all",
     Changed(_METADATA, every(topics=[]), range(1))),
    ("other replicas in version 3", "metadata.same-topics-in-all-versions",
     Changed(_METADATA, every(replica_nodes=[55]), range(3, 4))),
]  # fmt: skip


def _time_is(*times: int) -> Any:
    def condition(request: Any) -> bool:
        return any(one.timestamp in times for topic in request.topics for one in topic.partitions)

    return condition


def _time_is_given(request: Any) -> bool:
    return any(one.timestamp > 0 for topic in request.topics for one in topic.partitions)


def _committed(request: Any) -> bool:
    return bool(request.isolation_level == 1)


LIST_OFFSETS_FAULTS: Final[list[Row]] = [
    *faults_of(
        _LIST,
        ("no first offset", "list-offsets.earliest", every(offset=-1)),
        ("the end goes back", "list-offsets.latest", every(offset=0)),
        ("a committed end beyond the end", "list-offsets.committed-is-not-beyond-the-end",
         when(_committed, every(offset=1 << 40))),
        ("no time of the first record", "list-offsets.by-time-from-the-start",
         every(timestamp=-1)),
        ("a record of the year 3000", "list-offsets.by-time-in-the-future", every(offset=5)),
        ("a record before its time", "list-offsets.by-time-is-monotonic",
         when(_time_is_given, every(timestamp=1))),
        ("no largest timestamp", "list-offsets.max-timestamp",
         when(_time_is(-3), every(offset=-1))),
        ("the largest timestamp for old versions", "list-offsets.max-timestamp-is-new",
         no_error(35)),
        ("a local start before the start", "list-offsets.earliest-local",
         when(_time_is(-4), every(offset=-7))),
        ("no epoch of the end", "list-offsets.leader-epoch", every(leader_epoch=-1)),
        ("unknown topics have offsets", "list-offsets.unknown-topic", no_error(3)),
        ("unknown partitions have offsets", "list-offsets.unknown-partition", no_error(3)),
        ("epochs of the future are taken", "list-offsets.epoch-of-the-future", no_error(75)),
        ("epochs of the past are taken", "list-offsets.epoch-of-the-past", no_error(74)),
        ("the current epoch is not taken", "list-offsets.current-epoch", every(error_code=74)),
        ("a partition is asked for twice", "list-offsets.partition-twice", no_error(42)),
    ),
    ("another start in version 3", "list-offsets.every-version-alike",
     Changed(_LIST, every(offset=1), range(3, 4))),
    *faults_of(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ("an epoch ends beyond the end", "list-offsets.end-of-current-epoch",
         every(end_offset=1 << 40)),
        ("an unknown epoch has an end", "list-offsets.end-of-unknown-epoch",
         every(end_offset=3)),
        ("OffsetForLeaderEpoch takes any epoch", "list-offsets.end-of-epoch-fenced",
         no_error(75)),
        ("unknown topics have epochs", "list-offsets.end-of-epoch-unknown-partition",
         no_error(3)),
    ),
]  # fmt: skip


def _flipped(data: Any) -> bytes:
    return bytes(data)[:-1] + bytes([bytes(data)[-1] ^ 1]) if data else b""


def _twice(data: Any) -> bytes:
    return bytes(data or b"") * 2


def _behind_start(request: Any) -> bool:
    return any(one.fetch_offset > 0 for topic in request.topics for one in topic.partitions)


def _has_rack(request: Any) -> bool:
    return bool(request.rack_id)


def _one_partition(answer: Any, request: Any) -> None:
    for topic in answer.responses:
        topic.partitions = list(topic.partitions)[:1]
    answer.responses = list(answer.responses)[:1]


FETCH_FAULTS: Final[list[Row]] = [
    *faults_of(
        _FETCH,
        ("nothing at the start", "fetch.from-the-start", every(records=b"")),
        ("a bit of a record", "fetch.batches-decode", every(records=_flipped)),
        ("batches twice", "fetch.offsets-ascend", every(records=_twice)),
        ("nothing in the middle", "fetch.in-the-middle", when(_behind_start, every(records=b""))),
        ("records beyond the high watermark", "fetch.nothing-beyond-high-watermark",
         every(high_watermark=1)),
        ("a high watermark of 0", "fetch.at-the-end", every(high_watermark=0)),
        ("offsets beyond the end are taken", "fetch.beyond-the-end", no_error(1)),
        ("offsets before the start are taken", "fetch.before-the-start", no_error(1)),
        ("another log start", "fetch.log-start", every(log_start_offset=3)),
        ("a large batch is held back", "fetch.first-batch-whole", every(records=b"")),
        ("limits are not kept", "fetch.limit-is-kept", every(records=_twice)),
        ("unknown names are taken", "fetch.unknown-topic", no_error(3)),
        ("unknown topic ids are taken", "fetch.unknown-topic-id", no_error(100)),
        ("another topic id", "fetch.topic-id-comes-back", every(topic_id=Uuid(b"\7" * 16))),
        ("unknown partitions are taken", "fetch.unknown-partition", no_error(3)),
        ("a stable offset beyond the end", "fetch.read-committed",
         every(last_stable_offset=1 << 40)),
        ("aborted transactions for all", "fetch.aborted-only-for-read-committed",
         every(aborted_transactions=[AbortedTransaction()])),
        ("a preferred replica", "fetch.no-preferred-replica", every(preferred_read_replica=4)),
        ("a preferred replica for each rack", "fetch.no-preferred-replica",
         when(_has_rack, every(preferred_read_replica=4))),
        ("no records for a rack", "fetch.no-preferred-replica",
         when(_has_rack, every(records=b""))),
        ("one of two partitions", "fetch.two-partitions", _one_partition),
        ("an error for nothing", "fetch.no-topics", top_error(1)),
        ("fetches of future epochs", "fetch-epochs.epoch-of-the-future", no_error(75)),
        ("fetches of past epochs", "fetch-epochs.epoch-of-the-past", no_error(74)),
        ("no fetch of the current epoch", "fetch-epochs.current-epoch", every(error_code=74)),
        ("a leader is named without need", "fetch-epochs.current-leader-named",
         every(current_leader=LeaderIdAndEpoch(leader_id=5, leader_epoch=1))),
        ("a divergence is not told", "fetch-epochs.diverging-epoch",
         every(diverging_epoch=EpochEndOffset(epoch=-1, end_offset=-1))),
        ("a divergence of what is right", "fetch-epochs.no-diverging-epoch",
         every(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1))),
        ("a session of id -4", "fetch-sessions.full-fetch", every(session_id=-4)),
        ("a session without asking", "fetch-sessions.sessionless", every(session_id=9)),
        ("unknown sessions are taken", "fetch-sessions.unknown-session", no_error(70)),
    ),
    ("another batch in version 6", "fetch.every-version-alike",
     Changed(_FETCH, every(records=_flipped), range(6, 7))),
    ("bytes are held back", "fetch.does-not-wait-with-bytes", Slow(_FETCH, _SLOW_S)),
    ("errors are held back", "fetch.error-does-not-wait", Slow(_FETCH, _SLOW_S)),
]  # fmt: skip
