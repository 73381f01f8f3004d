"""Bugs in what clients read: ApiVersions, Metadata, Fetch, ListOffsets and leader epochs."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from gateway.handlers import topic
from gateway.handlers.access import NOT_ASKED
from gateway.handlers.apis import (
    api_versions,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from gateway.handlers.fetch_sessions import FetchSessionCache, next_epoch
from gateway.ports.services import OffsetAt
from gateway.server.clients import dispatch
from gateway.sources.log_partition import LogPartition
from kwire.messages.fetch_response import AbortedTransaction, LeaderIdAndEpoch
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID
from tests.conformance_faults.mutants import mutant, without_error, wrapped
from tests.patches import patched, together

Context = AbstractContextManager[Any]


# --- ApiVersions


@mutant("api-versions.too-new-names-range")
def a_refusal_names_no_versions() -> Context:
    """The refusal of a version of ApiVersions that is too new lists no API."""

    def refused(original: Any, apis: Any = None) -> Any:
        answer = original(apis)
        answer.api_keys = []
        return answer

    return wrapped(dispatch, "unsupported_version_response", refused)


@mutant("api-versions.software-name-with-blank")
def software_names_are_not_checked() -> Context:
    """ApiVersions takes any software name."""
    return patched(api_versions, _is_valid=lambda request: True)


@mutant("api-versions.supported-features-from-one")
def features_from_zero_on_are_always_shown() -> Context:
    """Clients below version 4 get features whose lowest version is 0 (KAFKA-17011)."""

    def lists(original: Any, features: Any, understood: bool) -> Any:
        return original(features, True)

    return wrapped(api_versions, "_feature_lists", lists)


@mutant("api-versions.finalized-is-supported")
def finalized_levels_are_one_too_high() -> Context:
    """The finalized level of each feature is one above the highest that is supported."""

    def features(original: Any, levels: Any) -> Any:
        return tuple(replace(one, finalized=one.max_version + 1) for one in original(levels))

    return wrapped(api_versions, "_features", features)


@mutant("framing.correlation-id-negative")
def correlation_ids_lose_their_sign() -> Context:
    """The correlation id of a response is never negative."""

    def header(original: Any, key: int, version: int, number: int, **more: Any) -> Any:
        return original(key, version, abs(number), **more)

    return wrapped(dispatch, "encode_response_header", header)


# --- Metadata


@mutant("metadata.empty-means-none")
def empty_topics_mean_all() -> Context:
    """Metadata with an empty list returns all topics in every version, as in version 0."""
    return patched(metadata, _asks_all=lambda request, context: not request.topics)


@mutant("metadata.invalid-name")
def names_are_not_checked() -> Context:
    """Metadata of a name that no topic can have gets UNKNOWN_TOPIC_OR_PARTITION."""
    return patched(metadata, is_valid_name=lambda name: True)


@mutant("metadata.ids-are-set")
def topics_have_no_ids() -> Context:
    """Metadata returns topics with the zero id."""

    def found(original: Any, self: Any, one: Any) -> Any:
        return original(self, one._replace(topic_id=ZERO_UUID))

    return wrapped(metadata._Answer, "_found", found)


@mutant("metadata.operations-not-asked")
def operations_are_always_there() -> Context:
    """A client that does not ask for its operations on a topic gets none, not the default."""
    return patched(metadata, NOT_ASKED=0)


@mutant("metadata.cluster-operations")
def cluster_operations_are_never_there() -> Context:
    """A client that asks for its operations on the cluster gets the default."""
    return patched(metadata, cluster_operations=lambda context: NOT_ASKED)


# --- offsets


@mutant("fetch.before-the-start")
def a_log_starts_one_record_late() -> Context:
    """ListOffsets returns the offset of the second record for the start of the log."""

    def look_up(original: Any, partition: Any, timestamp: int) -> OffsetAt:
        found: OffsetAt = original(partition, timestamp)
        late = timestamp == list_offsets.EARLIEST
        return replace(found, offset=found.offset + 1) if late else found

    return wrapped(list_offsets, "_look_up", look_up)


@mutant("list-offsets.max-timestamp-is-new")
def every_version_knows_the_largest_timestamp() -> Context:
    """A special timestamp is looked up in versions before the one that has it."""
    return patched(list_offsets, _SINCE={**list_offsets._SINCE, list_offsets.MAX_TIMESTAMP: 1})


@mutant("list-offsets.partition-twice")
def repeated_partitions_are_looked_up() -> Context:
    """ListOffsets looks up a partition that the request names twice."""

    class Once(Counter[Any]):
        def items(self) -> Any:
            return dict.fromkeys(self, 1).items()

    return patched(list_offsets, Counter=Once)


@mutant("list-offsets.epoch-of-the-future")
def epochs_of_the_future_are_taken() -> Context:
    """ListOffsets takes a leader epoch above that of the leader."""
    return wrapped(list_offsets, "epoch_fault", without_error(ErrorCode.UNKNOWN_LEADER_EPOCH))


@mutant("list-offsets.end-of-current-epoch")
def an_epoch_ends_one_record_late() -> Context:
    """OffsetForLeaderEpoch returns the offset behind the end of an epoch."""

    def end_of(original: Any, partition: Any, epoch: int) -> tuple[int, int]:
        found, end = original(partition, epoch)
        return found, end + 1

    return wrapped(offset_for_leader_epoch, "end_of_epoch", end_of)


@mutant("list-offsets.end-of-unknown-epoch")
def epochs_of_the_future_have_an_end() -> Context:
    """OffsetForLeaderEpoch returns the end of the log for an epoch after the leader's."""

    def end_of(original: Any, partition: Any, epoch: int) -> Any:
        return original(partition, min(epoch, partition.leader_epoch))

    return wrapped(offset_for_leader_epoch, "end_of_epoch", end_of)


# --- Fetch


@mutant("fetch-epochs.epoch-of-the-past")
def fetches_of_old_epochs_are_served() -> Context:
    """A Fetch with a leader epoch that is over gets records."""
    return wrapped(topic, "epoch_fault", without_error(ErrorCode.FENCED_LEADER_EPOCH))


@mutant("fetch-epochs.diverging-epoch")
def divergence_is_not_told() -> Context:
    """A Fetch whose last epoch ended before its offset gets records."""
    return patched(fetch, diverging=lambda log, wanted: None)


@mutant("fetch-epochs.current-leader-named")
def leaders_are_always_named() -> Context:
    """A Fetch response without an error names the leader, as for a client with an old epoch."""

    def data(original: Any, self: Any, log: Any, wanted: Any) -> Any:
        found = original(self, log, wanted)
        found.current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=log.leader_epoch)
        return found

    return wrapped(fetch._Fetch, "_data", data)


@mutant("fetch-sessions.unknown-session")
def unknown_sessions_are_served() -> Context:
    """A Fetch of a session that the server does not have is served."""

    def find(original: Any, self: Any, session_id: int, epoch: int, **how: Any) -> Any:
        found = original(self, session_id, epoch, **how)
        if found is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            return found
        made = self.create(1, **how)
        made.epoch = next_epoch(epoch)
        return made

    return wrapped(FetchSessionCache, "find", find)


@mutant("fetch.unknown-topic-id")
def ids_are_names() -> Context:
    """A Fetch of an unknown topic id gets the error of an unknown name."""

    def topic(original: Any, self: Any, name: Any, topic_id: Any) -> Any:
        one = original(self, name, topic_id)
        unknown = one is ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else one

    return wrapped(fetch._Fetch, "_topic", topic)


@mutant("fetch.topic-id-comes-back")
def ids_do_not_come_back() -> Context:
    """The topics of a Fetch response have no ids."""

    def answer(original: Any, self: Any) -> Any:
        found = original(self)
        for one in found.responses:
            one.topic_id = ZERO_UUID
        return found

    return wrapped(fetch._Fetch, "answer", answer)


@mutant("fetch.no-preferred-replica")
def every_rack_has_a_replica() -> Context:
    """A consumer that names a rack is sent to broker 4, whether there is one or not."""

    def replica(original: Any, log: Any, offset: int, rack: str | None, context: Any) -> Any:
        return 4 if rack else original(log, offset, rack, context)

    return together(
        patched(fetch, rack_of=lambda rack, context: rack),
        wrapped(fetch, "preferred_replica", replica),
    )


@mutant("fetch.beyond-the-end")
def the_end_is_everywhere() -> Context:
    """A Fetch beyond the end of the log is answered as one at its end."""

    def data(original: Any, self: Any, log: Any, wanted: Any) -> Any:
        at = min(wanted.fetch_offset, log.high_watermark)
        return original(self, log, wanted._replace(fetch_offset=at))

    return wrapped(fetch._Fetch, "_data", data)


@mutant("fetch.limit-is-kept")
def limits_are_not_kept() -> Context:
    """A Fetch returns more than the limit of its partition."""

    def data(original: Any, self: Any, log: Any, wanted: Any) -> Any:
        self._bytes_max = 1 << 24
        return original(self, log, wanted._replace(max_bytes=1 << 24))

    return wrapped(fetch._Fetch, "_data", data)


@mutant("fetch.first-batch-whole")
def the_first_batch_is_not_sent() -> Context:
    """A batch above the limit of the partition is not sent, so that a client never gets on."""

    def read(original: Any, self: Any, offset: int, most: int) -> Any:
        found = original(self, offset, most)
        return found if found.size <= most else original(self, self.high_watermark, most)

    return wrapped(LogPartition, "read", read)


@mutant("fetch.error-does-not-wait")
def errors_wait() -> Context:
    """A Fetch beyond the end of the log waits for records."""

    def news(original: Any, self: Any, wanted: Any, enough: int) -> int:
        found: int = original(self, wanted, enough)
        return found if wanted.fetch_offset <= wanted.log.high_watermark else 0

    return wrapped(fetch._Fetch, "_news", news)


@mutant("fetch.aborted-only-for-read-committed")
def aborted_transactions_are_always_there() -> Context:
    """A client that reads uncommitted records gets aborted transactions."""

    def data(original: Any, self: Any, log: Any, wanted: Any) -> Any:
        found = original(self, log, wanted)
        found.aborted_transactions = [AbortedTransaction(producer_id=1, first_offset=0)]
        return found

    return wrapped(fetch._Fetch, "_data", data)


@mutant("fetch.nothing-beyond-high-watermark")
def high_watermarks_are_one_too_low() -> Context:
    """The high watermark of a Fetch response is the offset of its last record."""

    def data(original: Any, self: Any, log: Any, wanted: Any) -> Any:
        found = original(self, log, wanted)
        found.high_watermark -= 1
        return found

    return wrapped(fetch._Fetch, "_data", data)
