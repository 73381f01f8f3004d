"""Rules of Fetch as a replica of the metadata log sends it (KIP-595, KIP-630).

The requests are those of an observer without an id, of which a leader keeps no state.
"""

from __future__ import annotations

import time
from typing import Any, Final

from kwire.conformance import quorum as requests
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import (
    FETCH_VERSIONS,
    Quorum,
    end_of_epoch,
    fetched,
    find_quorum,
    leader_in,
    require_follower,
    require_leader,
)
from kwire.conformance.rule import CONTROLLER, Family
from kwire.errors import DecodeError
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode
from kwire.records import RecordBatch, decode_batches, decode_control_record

_APIS: Final = (ApiKey.FETCH, ApiKey.VOTE, ApiKey.DESCRIBE_QUORUM)
FAMILY: Final = Family(
    "replica-fetch",
    "Fetch of the metadata log by a replica",
    roles=CONTROLLER,
    apis=_APIS,
    since="3.1",
)
_HANDLING: Final = "FetchRequest Handling"
#: Beyond the end of every log.
_FAR: Final = 1 << 40
#: How long the leader may keep a Fetch that waits, and how much later its answer may come.
_WAIT_MS: Final = 500
_SLACK_S: Final = 3.0
#: Enough for any metadata log of a test cluster in one answer.
_ALL_BYTES: Final = 4 << 20
#: How often two equal requests may find that the log's start has moved between them.
_READS: Final = 5


def batches_of(probe: Probe, partition: Any) -> list[RecordBatch]:
    """Return the batches in a response, with their CRCs checked. Fails the rule."""
    try:
        return list(decode_batches(bytes(partition.records or b"")))
    except DecodeError as error:
        probe.fail(f"the records of the answer are no batches: {error}")


def _log(probe: Probe, quorum: Quorum, **fields: Any) -> tuple[Any, list[RecordBatch]]:
    """Return the partition and its batches from the log's start on, or from the snapshot's end.

    The rule is not applicable where nothing follows the snapshot.
    """
    values = {"max_bytes": _ALL_BYTES, **fields}
    partition = fetched(probe, quorum, **values)
    snapshot = partition.snapshot_id
    if snapshot.end_offset >= 0:
        at = {"offset": snapshot.end_offset, "last_epoch": snapshot.epoch, "max_wait_ms": 1000}
        partition = fetched(probe, quorum, **{**values, **at})
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    batches = batches_of(probe, partition)
    if not batches and snapshot.end_offset >= 0:
        probe.not_applicable("the log ends with its snapshot")
    probe.expect(bool(batches), "a Fetch from the start of the log has no records")
    return partition, batches


@FAMILY.rule("newer-epoch", source="KIP-595", section=_HANDLING)
def newer_epoch(probe: Probe) -> None:
    """A Fetch of an epoch after the leader's is refused with UNKNOWN_LEADER_EPOCH."""
    quorum = find_quorum(probe)
    partition = fetched(probe, quorum, epoch=quorum.epoch + 1)
    probe.expect_error(partition.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)
    probe.expect(not partition.records, "the refusal has records")


@FAMILY.rule("refusal-has-no-records", source="KIP-595", section=_HANDLING)
def refusal_has_no_records(probe: Probe) -> None:
    """A Fetch of an old epoch is refused without records and without a diverging epoch."""
    partition = fetched(probe, find_quorum(probe), epoch=0)
    probe.expect_error(partition.error_code, ErrorCode.FENCED_LEADER_EPOCH)
    probe.expect(not partition.records, "the refusal has records")
    probe.expect(partition.diverging_epoch.end_offset < 0, "the refusal has a diverging epoch")


@FAMILY.rule("names-leader", source="KIP-595", section="Fetch: Current Leader Discovery")
def names_leader(probe: Probe) -> None:
    """A Fetch that is answered without an error names the present leader and epoch too."""
    quorum = require_leader(probe)
    told = leader_in(fetched(probe, quorum))
    probe.expect(
        told == (quorum.leader_id, quorum.epoch),
        f"the answer names leader {told[0]} and epoch {told[1]}; node {quorum.leader_id} leads "
        f"epoch {quorum.epoch}",
    )


@FAMILY.rule("not-leader", source="KIP-595", section="BeginQuorumEpoch")
def not_leader(probe: Probe) -> None:
    """A node that does not lead refuses a Fetch of the present epoch with NOT_LEADER_OR_FOLLOWER,
    and names the leader.
    """
    quorum = require_follower(probe)
    partition = fetched(probe, quorum)
    probe.expect_error(partition.error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    probe.expect(
        leader_in(partition) == (quorum.leader_id, quorum.epoch), "the answer names another leader"
    )


def _invalid(probe: Probe, **fields: Any) -> None:
    partition = fetched(probe, require_leader(probe), **fields)
    probe.expect_error(partition.error_code, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("last-epoch-negative", source="KafkaRaftClient", section="handleFetchRequest")
def last_epoch_negative(probe: Probe) -> None:
    """A replica whose last fetched epoch is negative is refused with INVALID_REQUEST."""
    _invalid(probe, last_epoch=-1)


@FAMILY.rule("last-epoch-above", source="KafkaRaftClient", section="handleFetchRequest")
def last_epoch_above(probe: Probe) -> None:
    """A replica whose last fetched epoch is above the epoch of its request is refused with
    INVALID_REQUEST.
    """
    _invalid(probe, last_epoch=require_leader(probe).epoch + 1, offset=1)


@FAMILY.rule("offset-negative", source="KafkaRaftClient", section="handleFetchRequest")
def offset_negative(probe: Probe) -> None:
    """A Fetch from a negative offset is refused with INVALID_REQUEST."""
    _invalid(probe, offset=-1)


@FAMILY.rule("wait-negative", source="KafkaRaftClient", section="handleFetchRequest")
def wait_negative(probe: Probe) -> None:
    """A Fetch with a negative wait is refused with INVALID_REQUEST."""
    version = probe.need(ApiKey.FETCH, *FETCH_VERSIONS)
    quorum = require_leader(probe)
    request = requests.fetch(quorum.cluster_id, epoch=quorum.epoch, version=version, max_wait_ms=-1)
    answer = probe.call(request, version)
    codes = {answer.error_code, *(p.error_code for t in answer.responses for p in t.partitions)}
    probe.expect(ErrorCode.INVALID_REQUEST in codes, f"the answer has errors {sorted(codes)}")


@FAMILY.rule("by-name", source="KIP-595", section="Fetch: Request Schema", since="2.7")
def by_name(probe: Probe) -> None:
    """Fetch version 12, the version of the text, names the metadata topic and is answered."""
    version, quorum = probe.need(ApiKey.FETCH, 12), require_leader(probe)
    partition = FetchPartition(
        current_leader_epoch=quorum.epoch, fetch_offset=_FAR, last_fetched_epoch=quorum.epoch
    )
    topic = FetchTopic(topic=CLUSTER_METADATA_TOPIC, partitions=[partition])
    answer = probe.call(
        FetchRequest(cluster_id=quorum.cluster_id, max_wait_ms=0, topics=[topic]), version
    )
    if answer.error_code == ErrorCode.INVALID_REQUEST:
        probe.deviates(
            "the leader looks for a topic id, which version 12 does not have",
            "KafkaRaftClient.hasValidTopicPartition",
        )
    probe.expect_error(answer.error_code, ErrorCode.NONE)


# --- divergence -----------------------------------------------------------------------------------


@FAMILY.rule("diverging-beyond-end", source="KIP-595", section=_HANDLING)
def diverging_beyond_end(probe: Probe) -> None:
    """A Fetch from beyond the end of the log is answered without an error and without records, with
    the last epoch and its end as the diverging epoch.
    """
    quorum = require_leader(probe)
    before = end_of_epoch(probe, quorum, quorum.epoch)
    partition = fetched(probe, quorum, offset=_FAR, last_epoch=quorum.epoch)
    after = end_of_epoch(probe, quorum, quorum.epoch)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    probe.expect(not partition.records, "the answer has records")
    found = (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
    probe.expect(
        before <= found <= after and found[0] == quorum.epoch,
        f"the diverging epoch is {found[0]} with end {found[1]}; epoch {quorum.epoch} ended "
        f"between {before[1]} and {after[1]}",
    )


@FAMILY.rule("diverging-older-epoch", source="KIP-595", section=_HANDLING)
def diverging_older_epoch(probe: Probe) -> None:
    """A Fetch whose last epoch ended before its offset is answered with that epoch, or the largest
    one before it, and its end.
    """
    quorum = require_leader(probe)
    _, end = end_of_epoch(probe, quorum, quorum.epoch)
    partition = fetched(probe, quorum, offset=end, last_epoch=quorum.epoch - 1)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    found = partition.diverging_epoch
    if found.end_offset < 0 and partition.snapshot_id.end_offset >= 0:
        probe.not_applicable("the log of the epoch before is in a snapshot")
    probe.expect(
        0 <= found.epoch < quorum.epoch and 0 <= found.end_offset < end,
        f"the diverging epoch of epoch {quorum.epoch - 1} at offset {end} is {found.epoch} with "
        f"end {found.end_offset}",
    )
    probe.expect(not partition.records, "the answer has records")


@FAMILY.rule("no-divergence", source="KIP-595", section=_HANDLING)
def no_divergence(probe: Probe) -> None:
    """A Fetch from the end of the log with the last epoch has no diverging epoch."""
    quorum = require_leader(probe)
    epoch, end = end_of_epoch(probe, quorum, quorum.epoch)
    partition = fetched(probe, quorum, offset=end, last_epoch=epoch)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    found = partition.diverging_epoch
    probe.expect(
        found.end_offset < 0, f"the answer names diverging epoch {found.epoch}: {found.end_offset}"
    )


# --- records --------------------------------------------------------------------------------------


@FAMILY.rule("offsets-without-gaps", source="KIP-595", section="Log Structure")
def offsets_without_gaps(probe: Probe) -> None:
    """The batches of an answer begin at the fetch offset or around it, follow each other without a
    gap, and have right CRCs.
    """
    partition, batches = _log(probe, require_leader(probe))
    start = max(partition.log_start_offset, 0)
    expected = batches[0].header.base_offset
    probe.expect(start <= expected, f"the first batch is at {expected}, the log starts at {start}")
    for header in (batch.header for batch in batches):
        probe.expect(
            header.base_offset == expected, f"a batch is at {header.base_offset}, not at {expected}"
        )
        expected = header.next_offset


@FAMILY.rule("epochs-rise", source="KIP-595", section="Key Concepts")
def epochs_rise(probe: Probe) -> None:
    """The epochs of batches do not fall along the log, and none is above the leader's."""
    quorum = require_leader(probe)
    last = 0
    for batch in _log(probe, quorum)[1]:
        epoch = batch.header.partition_leader_epoch
        probe.expect(
            last <= epoch <= quorum.epoch,
            f"epoch {epoch} follows epoch {last}, up to {quorum.epoch}",
        )
        last = epoch


@FAMILY.rule("leader-change-first", source="KIP-595", section="Vote Response Handling")
def leader_change_first(probe: Probe) -> None:
    """The first record of an epoch is a control record that names its leader, a voter."""
    quorum = require_leader(probe)
    before, start = end_of_epoch(probe, quorum, quorum.epoch - 1)
    partition = fetched(probe, quorum, offset=start, last_epoch=before)
    if partition.snapshot_id.end_offset >= 0:
        probe.not_applicable("the first record of the epoch is in a snapshot")
    batches = batches_of(probe, partition)
    first = next((b for b in batches if b.header.partition_leader_epoch == quorum.epoch), None)
    if first is None:
        probe.fail(f"there is no batch of epoch {quorum.epoch} at offset {start}")
    probe.expect(
        first.header.is_control, f"the first batch of epoch {quorum.epoch} is no control batch"
    )
    record = decode_control_record(first.records[0])
    message = record.message
    if not isinstance(message, LeaderChangeMessage):
        probe.fail(f"the first control record of epoch {quorum.epoch} is of type {record.type}")
    probe.expect(
        message.leader_id == quorum.leader_id,
        f"the record of epoch {quorum.epoch} names leader {message.leader_id}, not "
        f"{quorum.leader_id}",
    )
    voters = [voter.voter_id for voter in message.voters]
    probe.expect(quorum.leader_id in voters, f"the voters {voters} lack the leader")


@FAMILY.rule("high-watermark", source="KIP-595", section="Key Concepts")
def high_watermark(probe: Probe) -> None:
    """The high watermark does not fall, and is not above the end of the log."""
    quorum = require_leader(probe)
    first = fetched(probe, quorum, offset=1, last_epoch=quorum.epoch).high_watermark
    second = fetched(probe, quorum, offset=1, last_epoch=quorum.epoch).high_watermark
    _, end = end_of_epoch(probe, quorum, quorum.epoch)
    probe.expect(first >= 0, f"the high watermark is {first}")
    probe.expect(first <= second, f"the high watermark fell from {first} to {second}")
    probe.expect(second <= end, f"the high watermark is {second}, the log ends at {end}")


@FAMILY.rule("whole-batches", source="KIP-74", section="Proposed Changes")
def whole_batches(probe: Probe) -> None:
    """A Fetch of one byte at most is answered with one whole batch, so that a replica always gets
    on.
    """
    _, batches = _log(probe, require_leader(probe), max_bytes=1)
    probe.expect(bool(batches), "the answer to a Fetch of one byte has no batch")
    if len(batches) > 1:
        probe.deviates(
            f"the answer to a Fetch of one byte has {len(batches)} batches",
            "KafkaRaftClient before KIP-1219",
        )


@FAMILY.rule("any-replica", source="KIP-595", section="Key Concepts: Observer")
def any_replica(probe: Probe) -> None:
    """A Fetch of a replica id that is no voter is answered with the same records as any other."""
    quorum = require_leader(probe)
    fields = {"offset": 1, "last_epoch": quorum.epoch, "max_bytes": 1}
    for _ in range(_READS):
        mine = fetched(probe, quorum, **fields)
        other = fetched(probe, quorum, replica_id=-2, **fields)
        again = fetched(probe, quorum, **fields)
        # The log's start may pass the offset between two requests: only what stays is compared.
        if _read(mine) == _read(again):
            probe.expect_error(other.error_code, mine.error_code)
            probe.expect(_read(mine)[1] == _read(other)[1], "the two answers differ")
            return
    probe.expect(False, f"{_READS} times the same Fetch had two answers")


def _read(partition: Any) -> tuple[int, bytes]:
    """Error and records of an answer."""
    return partition.error_code, bytes(partition.records or b"")


@FAMILY.rule("waits-no-longer", source="KIP-595", section="Fetch", alone=True)
def waits_no_longer(probe: Probe) -> None:
    """A Fetch from the end of the log is answered within the wait that it allows."""
    quorum = require_leader(probe)
    epoch, end = end_of_epoch(probe, quorum, quorum.epoch)
    began = time.monotonic()
    fetched(probe, quorum, offset=end, last_epoch=epoch, max_wait_ms=_WAIT_MS)
    took_s = time.monotonic() - began
    probe.expect(
        took_s < _WAIT_MS / 1000 + _SLACK_S,
        f"a Fetch that waits {_WAIT_MS} ms at most was answered after {took_s:.1f} s",
    )


@FAMILY.rule("no-session", source="KafkaRaftClient", section="handleFetchRequest")
def no_session(probe: Probe) -> None:
    """A Fetch of the metadata log begins no fetch session."""
    quorum, version = require_leader(probe), probe.need(ApiKey.FETCH, *FETCH_VERSIONS)
    request = requests.fetch(quorum.cluster_id, epoch=quorum.epoch, version=version)
    request.session_epoch = 0
    answer = probe.call(request, version)
    probe.expect(answer.session_id == 0, f"the answer has session {answer.session_id}")
