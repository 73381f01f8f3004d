"""Rules of Fetch for consumers (KIP-74, KIP-98, KIP-320, KIP-392, KIP-516, KIP-595)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Final

from kwire.conformance.fetch_fixtures import batches_of, end_of, good_fetch
from kwire.conformance.fixtures import (
    EARLIEST,
    Partition,
    fetch,
    fetch_request,
    list_offset,
    readable,
)
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.errors import DecodeError
from kwire.messages.fetch_request import FetchRequest
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import decode_batches
from kwire.uuid import Uuid

_APIS: Final = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA)
_WAIT_MS: Final = 600
_BY_NAME: Final = range(4, 13)
_BY_ID: Final = range(13, 19)

FAMILY: Final = Family(
    "fetch",
    "Fetch by consumers",
    roles=BROKER,
    apis=_APIS,
    changes=Changes.OWN,
)


@FAMILY.rule("from-the-start", source="KIP-74", section="Proposed Changes")
def from_the_start(probe: Probe) -> None:
    """Fetch at the first offset gives a batch that has this offset, or begins behind it where
    compaction has removed records.
    """
    where = readable(probe)
    batches = batches_of(probe, good_fetch(probe, where, where.start))
    probe.expect(bool(batches), "there is no batch at the first offset")
    probe.expect(
        batches[0].last_offset >= where.start, f"the first batch ends at {batches[0].last_offset}"
    )


@FAMILY.rule("batches-decode", source="DefaultRecordBatch", section="ensureValid", since="0.11")
def batches_decode(probe: Probe) -> None:
    """Every batch has format 2 and a right CRC, and as many records as it says."""
    where = readable(probe)
    one = good_fetch(probe, where, where.start)
    batches_of(probe, one)
    try:
        for batch in decode_batches(bytes(one.records or b"")):
            offsets = [record.offset for record in batch.records]
            probe.expect(
                len(offsets) == batch.header.record_count and offsets == sorted(set(offsets)),
                f"the batch at {batch.header.base_offset} has records at {offsets}",
            )
            probe.expect(
                not offsets or offsets[-1] <= batch.header.last_offset,
                f"a record at {offsets[-1:]} is behind the end of its batch",
            )
    except DecodeError as error:
        probe.fail(f"the records do not decode: {error}")


@FAMILY.rule("offsets-ascend", source="DefaultRecordBatch", section="baseOffset")
def offsets_ascend(probe: Probe) -> None:
    """Batches of one answer follow each other: the next begins behind the end of the one before,
    and leader epochs do not fall.
    """
    where = readable(probe)
    last, epoch = -1, -1
    for batch in batches_of(probe, good_fetch(probe, where, where.start)):
        probe.expect(
            batch.base_offset > last, f"a batch begins at {batch.base_offset} behind {last}"
        )
        probe.expect(
            batch.partition_leader_epoch >= epoch,
            f"epoch {batch.partition_leader_epoch} follows epoch {epoch}",
        )
        last, epoch = batch.last_offset, batch.partition_leader_epoch


@FAMILY.rule("in-the-middle", source="KIP-74", section="Proposed Changes")
def in_the_middle(probe: Probe) -> None:
    """Fetch in the middle of a batch gives the whole batch that has the offset."""
    where = readable(probe)
    first = batches_of(probe, good_fetch(probe, where, where.start))
    chosen = next((one for one in first if one.last_offset > one.base_offset), None)
    if chosen is None:
        probe.not_applicable("no batch has more than one offset")
    offset = chosen.last_offset
    batches = batches_of(probe, good_fetch(probe, where, offset))
    probe.expect(
        bool(batches) and batches[0].base_offset <= offset <= batches[0].last_offset,
        f"Fetch at {offset} gives batches {[one.base_offset for one in batches[:3]]}",
    )


@FAMILY.rule("nothing-beyond-high-watermark", source="KIP-74", section="high watermark")
def nothing_beyond_high_watermark(probe: Probe) -> None:
    """No record of an answer lies at or above its high watermark."""
    where = readable(probe)
    one = good_fetch(probe, where, where.start)
    for batch in batches_of(probe, one):
        probe.expect(
            batch.last_offset < one.high_watermark,
            f"offset {batch.last_offset} is served at high watermark {one.high_watermark}",
        )


@FAMILY.rule("at-the-end", source="KIP-74", section="Proposed Changes")
def at_the_end(probe: Probe) -> None:
    """Fetch at the end of the log gives no records and no error, and the end as high watermark."""
    where = readable(probe)
    end = end_of(probe, where)
    one = good_fetch(probe, where, end)
    if where.is_own:
        probe.expect(not one.records, f"{len(one.records or b'')} bytes of records at the end")
        probe.expect(one.high_watermark == end, f"the high watermark is {one.high_watermark}")
    probe.expect(one.high_watermark >= end, f"the high watermark is {one.high_watermark} < {end}")


@FAMILY.rule("beyond-the-end", source="ReplicaManager", section="OffsetOutOfRangeException")
def beyond_the_end(probe: Probe) -> None:
    """Fetch beyond the end of the log has error OFFSET_OUT_OF_RANGE and no records."""
    where = readable(probe)
    one = fetch(probe, where, end_of(probe, where) + 1_000_000)
    probe.expect_error(one.error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
    probe.expect(not one.records, "an answer with an error has records")


@FAMILY.rule("before-the-start", source="ReplicaManager", section="OffsetOutOfRangeException")
def before_the_start(probe: Probe) -> None:
    """Fetch before the first offset has error OFFSET_OUT_OF_RANGE."""
    where = readable(probe)
    one = fetch(probe, where, max(where.start - 1, -1))
    probe.expect_error(one.error_code, ErrorCode.OFFSET_OUT_OF_RANGE)


@FAMILY.rule("log-start", source="KIP-107", section="FetchResponse v5", since="1.0")
def log_start(probe: Probe) -> None:
    """From version 5 on the answer has the first offset of the log, as ListOffsets gives it."""
    version = probe.need(ApiKey.FETCH, *range(5, 19))
    where = readable(probe)
    first = list_offset(probe, where.topic, where.index, EARLIEST).offset
    one = good_fetch(probe, where, where.start, version=version)
    probe.expect(
        one.log_start_offset == first, f"the log starts at {one.log_start_offset}, not {first}"
    )


@FAMILY.rule("every-version-alike", source="FetchResponse.json", section="Records")
def every_version_alike(probe: Probe) -> None:
    """The records at an offset are the same bytes in every version."""
    where = readable(probe)
    found = {}
    for version in probe.session.versions(ApiKey.FETCH):
        one = good_fetch(
            probe, where, where.start, version=version, max_bytes=1, partition_max_bytes=1
        )
        batches = batches_of(probe, one)
        probe.expect(bool(batches), f"v{version} has no batch")
        found[version] = bytes(one.records)[: batches[0].end]
    first = min(found)
    other = [version for version, data in found.items() if data != found[first]]
    probe.expect(not other, f"the first batch differs between v{first} and v{other}")


@FAMILY.rule("first-batch-whole", source="KIP-74", section="Proposed Changes", since="0.10.1")
def first_batch_whole(probe: Probe) -> None:
    """A batch that is larger than the request's limits of bytes is given whole if it is the first,
    so that a consumer gets on.
    """
    where = readable(probe)
    one = good_fetch(probe, where, where.start, max_bytes=1, partition_max_bytes=1)
    batches = batches_of(probe, one)
    probe.expect(bool(batches), "with a limit of one byte there is no batch")


@FAMILY.rule("limit-is-kept", source="KIP-74", section="Proposed Changes", since="0.10.1")
def limit_is_kept(probe: Probe) -> None:
    """Behind the first batch the limit of bytes is kept."""
    where = readable(probe)
    one = good_fetch(probe, where, where.start, max_bytes=1, partition_max_bytes=1)
    found = len(batches_of(probe, one))
    probe.expect(found <= 1, f"with a limit of one byte there are {found} batches")


@FAMILY.rule(
    "unknown-topic", source="KafkaApis", section="handleFetchRequest", changes=Changes.NOTHING
)
def unknown_topic(probe: Probe) -> None:
    """Up to version 12 a topic name that no topic has has error UNKNOWN_TOPIC_OR_PARTITION."""
    version = probe.need(ApiKey.FETCH, *_BY_NAME)
    where = Partition(NO_NAME, Uuid(bytes(16)), 0, 0, 0, 0, False)
    one = fetch(probe, where, 0, version)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule(
    "unknown-topic-id", source="KIP-516", section="Fetch v13", since="3.1", changes=Changes.NOTHING
)
def unknown_topic_id(probe: Probe) -> None:
    """From version 13 on a topic id that no topic has has error UNKNOWN_TOPIC_ID."""
    version = probe.need(ApiKey.FETCH, *_BY_ID)
    where = Partition(NO_NAME, Uuid(bytes(range(16))), 0, 0, 0, 0, False)
    one = fetch(probe, where, 0, version)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_TOPIC_ID)


@FAMILY.rule("topic-id-comes-back", source="KIP-516", section="Fetch v13", since="3.1")
def topic_id_comes_back(probe: Probe) -> None:
    """From version 13 on the answer names the topic by the id of the request."""
    version = probe.need(ApiKey.FETCH, *_BY_ID)
    where = readable(probe)
    answer = probe.call(fetch_request(where, where.start, version), version)
    ids = [topic.topic_id for topic in answer.responses]
    probe.expect(ids == [where.topic_id], "the answer has another topic id than the request")


@FAMILY.rule("unknown-partition", source="KafkaApis", section="handleFetchRequest")
def unknown_partition(probe: Probe) -> None:
    """A partition that the topic does not have has error UNKNOWN_TOPIC_OR_PARTITION."""
    where = dataclasses.replace(readable(probe), index=100_000)
    one = fetch(probe, where, 0)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule("waits-for-bytes", source="FetchRequest.json", section="MaxWaitMs")
def waits_for_bytes(probe: Probe) -> None:
    """At the end of the log the answer waits for MaxWaitMs if MinBytes are not there."""
    where = readable(probe)
    if not where.is_own:
        probe.not_applicable("others may write to the partition")
    end = end_of(probe, where)
    began = time.monotonic()
    good_fetch(probe, where, end, max_wait_ms=_WAIT_MS, min_bytes=1)
    took_ms = (time.monotonic() - began) * 1000
    probe.expect(took_ms >= _WAIT_MS * 0.9, f"the answer came after {took_ms:.0f} ms")


@FAMILY.rule("does-not-wait-with-bytes", source="FetchRequest.json", section="MinBytes")
def does_not_wait_with_bytes(probe: Probe) -> None:
    """An answer that has MinBytes does not wait for MaxWaitMs."""
    where = readable(probe)
    wait_ms = int(probe.session.timeout_s * 1000) - 1000
    began = time.monotonic()
    good_fetch(probe, where, where.start, max_wait_ms=wait_ms, min_bytes=1)
    took_ms = (time.monotonic() - began) * 1000
    probe.expect(took_ms < wait_ms * 0.8, f"the answer came after {took_ms:.0f} ms")


@FAMILY.rule("error-does-not-wait", source="ReplicaManager", section="fetchMessages")
def error_does_not_wait(probe: Probe) -> None:
    """An answer with an error of a partition does not wait for MaxWaitMs."""
    where = readable(probe)
    wait_ms = int(probe.session.timeout_s * 1000) - 1000
    began = time.monotonic()
    one = fetch(probe, where, 1 << 40, max_wait_ms=wait_ms, min_bytes=1)
    probe.expect_error(one.error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
    took_ms = (time.monotonic() - began) * 1000
    probe.expect(took_ms < wait_ms * 0.8, f"the answer came after {took_ms:.0f} ms")


@FAMILY.rule("read-committed", source="KIP-98", section="FetchResponse v4", since="0.11")
def read_committed(probe: Probe) -> None:
    """For read_committed the last stable offset is not beyond the high watermark, and no record at
    or above it is given.
    """
    where = readable(probe)
    one = good_fetch(probe, where, where.start, isolation_level=1)
    probe.expect(
        0 <= one.last_stable_offset <= one.high_watermark,
        f"last stable offset {one.last_stable_offset}, high watermark {one.high_watermark}",
    )
    for batch in batches_of(probe, one):
        probe.expect(
            batch.last_offset < one.last_stable_offset, f"offset {batch.last_offset} is not stable"
        )


@FAMILY.rule(
    "aborted-only-for-read-committed", source="KIP-98", section="FetchResponse v4", since="0.11"
)
def aborted_only_for_read_committed(probe: Probe) -> None:
    """For read_uncommitted no aborted transactions are named."""
    where = readable(probe)
    one = good_fetch(probe, where, where.start)
    probe.expect(not one.aborted_transactions, "read_uncommitted has aborted transactions")


@FAMILY.rule("no-preferred-replica", source="KIP-392", section="FetchResponse v11", since="2.4")
def no_preferred_replica(probe: Probe) -> None:
    """A consumer without a rack, or in one without a broker, gets no preferred read replica, and
    records.
    """
    version = probe.need(ApiKey.FETCH, *range(11, 19))
    where = readable(probe)
    for rack in ("", "a-rack-without-a-broker"):
        one = good_fetch(probe, where, where.start, version=version, rack_id=rack)
        found = one.preferred_read_replica
        probe.expect(found == -1, f"it is {found} for the rack {rack!r}")
        probe.expect(bool(one.records), f"there are no records for the rack {rack!r}")


@FAMILY.rule("whole-partition-is-read", source="KIP-74", section="Proposed Changes")
def whole_partition_is_read(probe: Probe) -> None:
    """Fetching again behind the last batch gives every offset of the partition up to its end."""
    where = readable(probe)
    if not where.is_own:
        probe.not_applicable("the partition is not of this run")
    offsets = list(_read(probe, where))
    probe.expect(
        offsets == list(range(where.start, where.end)), f"the partition has offsets {offsets}"
    )


def _read(probe: Probe, where: Partition) -> Iterator[int]:
    offset = where.start
    while offset < where.end:
        one = good_fetch(probe, where, offset, partition_max_bytes=1, max_bytes=1)
        batches = batches_of(probe, one)
        probe.expect(bool(batches), f"there is nothing at offset {offset}")
        probe.expect(batches[-1].next_offset > offset, f"the batches end before {offset}")
        for batch in decode_batches(bytes(one.records)):
            yield from (record.offset for record in batch.records if record.offset >= offset)
        offset = batches[-1].next_offset


@FAMILY.rule("two-partitions", source="FetchResponse.json", section="Responses")
def two_partitions(probe: Probe) -> None:
    """A fetch of a partition that is there and one that is not is answered for both."""
    where = readable(probe)
    version = probe.newest(ApiKey.FETCH)
    request = fetch_request(where, where.start, version)
    [topic] = request.topics
    topic.partitions = [topic.partitions[0], topic.partitions[0].copy(partition=100_000)]
    answer = probe.call(request, version)
    found = {
        one.partition_index: one.error_code for part in answer.responses for one in part.partitions
    }
    wanted = {where.index: ErrorCode.NONE, 100_000: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    probe.expect(found == wanted, f"partitions and errors are {found}")


@FAMILY.rule("no-topics", source="FetchRequest.json", section="Topics", roles=BROKER)
def no_topics(probe: Probe) -> None:
    """A fetch of nothing without a session is answered with nothing."""
    version = probe.newest(ApiKey.FETCH)
    answer = probe.call(FetchRequest(replica_id=-1, max_wait_ms=0, max_bytes=1024), version)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(not answer.responses, "a fetch of nothing has partitions")
