"""Rules of FetchSnapshot and of the snapshot that a Fetch names (KIP-630).

Kafka's controllers cannot encode an answer to FetchSnapshot that refuses a partition: they answer
UNKNOWN_SERVER_ERROR without a topic. The rules name that deviation.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance import quorum as requests
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import (
    OTHER_CLUSTER,
    Quorum,
    fetched,
    find_quorum,
    leader_in,
    require_leader,
)
from kwire.conformance.rule import CONTROLLER, Family
from kwire.errors import DecodeError
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import RecordBatch, decode_batches, decode_control_record

_APIS: Final = (ApiKey.FETCH_SNAPSHOT, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)
FAMILY: Final = Family("snapshots", "FetchSnapshot", roles=CONTROLLER, apis=_APIS, since="3.1")
_HANDLING: Final = "Fetch Snapshot: Request Handling"
#: A snapshot that no log has.
_NONE: Final = (1 << 40, 1)
_PAGE_BYTES: Final = 1000
#: Snapshots larger than this are not read whole.
_SIZE_MAX: Final = 4 << 20
_HEADER: Final = "SNAPSHOT_HEADER"
_FOOTER: Final = "SNAPSHOT_FOOTER"


def _ask(probe: Probe, quorum: Quorum, **fields: Any) -> Any:
    """Return the answer to a FetchSnapshot of the leader's epoch."""
    values = {"cluster": quorum.cluster_id, "epoch": quorum.epoch, "snapshot": _NONE, **fields}
    request = requests.fetch_snapshot(values.pop("cluster"), **values)
    return probe.call(request)


def _refused(probe: Probe, error: ErrorCode, answer: Any) -> None:
    if answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and not answer.topics:
        probe.deviates(
            f"the refusal is UNKNOWN_SERVER_ERROR without a topic, not {error.name}",
            "FetchSnapshotResponse",
        )
    partition = requests.only_partition(probe, answer)
    probe.expect_error(partition.error_code, error)
    probe.expect(not partition.unaligned_records, "the refusal has records")


def _snapshot(probe: Probe, quorum: Quorum) -> tuple[int, int]:
    """Return (end offset, epoch) of the snapshot that a Fetch from offset 0 names."""
    found = fetched(probe, quorum).snapshot_id
    if found.end_offset < 0:
        probe.not_applicable("the log has no snapshot")
    return found.end_offset, found.epoch


def _page(probe: Probe, quorum: Quorum, **fields: Any) -> Any:
    partition = requests.only_partition(probe, _ask(probe, quorum, **fields))
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    return partition


@FAMILY.rule("other-cluster", source="KIP-630", section=_HANDLING)
def other_cluster(probe: Probe) -> None:
    """A FetchSnapshot with the id of another cluster is refused with INCONSISTENT_CLUSTER_ID."""
    answer = _ask(probe, find_quorum(probe), cluster=OTHER_CLUSTER)
    probe.expect_error(answer.error_code, ErrorCode.INCONSISTENT_CLUSTER_ID)


@FAMILY.rule("unknown-snapshot", source="KIP-630", section=_HANDLING)
def unknown_snapshot(probe: Probe) -> None:
    """A FetchSnapshot of a snapshot that the leader does not have is refused with
    SNAPSHOT_NOT_FOUND.
    """
    _refused(probe, ErrorCode.SNAPSHOT_NOT_FOUND, _ask(probe, require_leader(probe)))


@FAMILY.rule(
    "bootstrap-snapshot",
    source="KafkaRaftClient",
    section="handleFetchSnapshotRequest",
    since="3.9",
)
def bootstrap_snapshot(probe: Probe) -> None:
    """The bootstrap snapshot 0-0 is no one's to fetch: it is refused with SNAPSHOT_NOT_FOUND."""
    answer = _ask(probe, require_leader(probe), snapshot=(0, 0))
    _refused(probe, ErrorCode.SNAPSHOT_NOT_FOUND, answer)


@FAMILY.rule("old-epoch", source="KIP-630", section=_HANDLING)
def old_epoch(probe: Probe) -> None:
    """A FetchSnapshot of an old epoch is refused with FENCED_LEADER_EPOCH."""
    answer = _ask(probe, require_leader(probe), epoch=0)
    _refused(probe, ErrorCode.FENCED_LEADER_EPOCH, answer)


@FAMILY.rule("newer-epoch", source="KIP-630", section=_HANDLING)
def newer_epoch(probe: Probe) -> None:
    """A FetchSnapshot of an epoch after the leader's is refused with UNKNOWN_LEADER_EPOCH."""
    quorum = require_leader(probe)
    answer = _ask(probe, quorum, epoch=quorum.epoch + 1)
    _refused(probe, ErrorCode.UNKNOWN_LEADER_EPOCH, answer)


@FAMILY.rule("other-topic", source="KIP-630", section=_HANDLING)
def other_topic(probe: Probe) -> None:
    """A FetchSnapshot of another topic is refused with UNKNOWN_TOPIC_OR_PARTITION."""
    answer = _ask(probe, require_leader(probe), name="kwire-conform-none")
    _refused(probe, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, answer)


@FAMILY.rule("other-partition", source="KIP-630", section=_HANDLING)
def other_partition(probe: Probe) -> None:
    """A FetchSnapshot of partition 1 is refused with UNKNOWN_TOPIC_OR_PARTITION."""
    answer = _ask(probe, require_leader(probe), partition=1)
    _refused(probe, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, answer)


# --- with a snapshot ------------------------------------------------------------------------------


@FAMILY.rule("named-by-fetch", source="KIP-630", section="Fetch")
def named_by_fetch(probe: Probe) -> None:
    """A Fetch from offset 0 of a log with a snapshot has no records; the snapshot that it names
    lies below the high watermark, and its epoch is not above the leader's.
    """
    quorum = require_leader(probe)
    end, epoch = _snapshot(probe, quorum)
    partition = fetched(probe, quorum)
    probe.expect(not partition.records, "the answer has records and a snapshot")
    probe.expect(
        end <= partition.high_watermark,
        f"the snapshot ends at {end}, the high watermark is {partition.high_watermark}",
    )
    probe.expect(epoch <= quorum.epoch, f"the snapshot is of epoch {epoch} of {quorum.epoch}")


@FAMILY.rule("fetch-goes-on", source="KIP-630", section="Fetch")
def fetch_goes_on(probe: Probe) -> None:
    """A Fetch from the end of the snapshot with its epoch does not diverge, and names no
    snapshot.
    """
    quorum = require_leader(probe)
    end, epoch = _snapshot(probe, quorum)
    partition = fetched(probe, quorum, offset=end, last_epoch=epoch)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    probe.expect(partition.diverging_epoch.end_offset < 0, "the answer has a diverging epoch")
    probe.expect(partition.snapshot_id.end_offset < 0, "the answer names a snapshot again")


@FAMILY.rule("page", source="KIP-630", section=_HANDLING)
def page(probe: Probe) -> None:
    """A page of a snapshot has the id and the position that were asked for, the size of the whole,
    and no more bytes than were allowed.
    """
    quorum = require_leader(probe)
    id = _snapshot(probe, quorum)
    found = _page(probe, quorum, snapshot=id, position=3, max_bytes=50)
    told = (found.snapshot_id.end_offset, found.snapshot_id.epoch)
    probe.expect(told == id, f"the page is of snapshot {told}, not {id}")
    probe.expect(found.position == 3, f"the page is at {found.position}, not at 3")
    size = len(found.unaligned_records or b"")
    probe.expect(0 < size <= 50, f"the page has {size} bytes, 50 were allowed")
    probe.expect(found.size >= 3 + size, f"the snapshot has {found.size} bytes, less than the page")


@FAMILY.rule("names-leader", source="KIP-630", section="Fetch Snapshot: Response Schema")
def names_leader(probe: Probe) -> None:
    """A page of a snapshot names the present leader and epoch."""
    quorum = require_leader(probe)
    found = _page(probe, quorum, snapshot=_snapshot(probe, quorum))
    told = leader_in(found)
    probe.expect(
        told == (quorum.leader_id, quorum.epoch),
        f"the page names leader {told[0]}, epoch {told[1]}",
    )


@FAMILY.rule("beyond-end", source="KIP-630", section=_HANDLING)
def beyond_end(probe: Probe) -> None:
    """A position at the end of the snapshot is refused with POSITION_OUT_OF_RANGE."""
    quorum = require_leader(probe)
    id = _snapshot(probe, quorum)
    size = _page(probe, quorum, snapshot=id).size
    answer = _ask(probe, quorum, snapshot=id, position=size)
    _refused(probe, ErrorCode.POSITION_OUT_OF_RANGE, answer)


@FAMILY.rule("position-negative", source="KIP-630", section=_HANDLING)
def position_negative(probe: Probe) -> None:
    """A negative position is refused with POSITION_OUT_OF_RANGE."""
    quorum = require_leader(probe)
    answer = _ask(probe, quorum, snapshot=_snapshot(probe, quorum), position=-1)
    _refused(probe, ErrorCode.POSITION_OUT_OF_RANGE, answer)


def _batches(probe: Probe) -> tuple[tuple[int, int], list[RecordBatch]]:
    """Return the id of the leader's snapshot, and its batches, read page by page."""
    quorum = require_leader(probe)
    id = _snapshot(probe, quorum)
    data, size = b"", 1
    while len(data) < size:
        found = _page(probe, quorum, snapshot=id, position=len(data), max_bytes=_pages_of(size))
        size, more = found.size, bytes(found.unaligned_records or b"")
        if size > _SIZE_MAX:
            probe.not_applicable(f"the snapshot has {size} bytes")
        probe.expect(bool(more), f"the page at {len(data)} of {size} bytes is empty")
        data += more
    probe.expect(len(data) == size, f"the pages have {len(data)} bytes, the snapshot {size}")
    try:
        return id, list(decode_batches(data))
    except DecodeError as error:
        probe.fail(f"the pages put together are no snapshot: {error}")


def _pages_of(size: int) -> int:
    return max(_PAGE_BYTES, size // 20)


@FAMILY.rule("header-and-footer", source="KIP-630", section="Snapshot Format")
def header_and_footer(probe: Probe) -> None:
    """A snapshot that is read page by page begins with SNAPSHOT_HEADER and ends with
    SNAPSHOT_FOOTER, in control batches.
    """
    _, batches = _batches(probe)
    for batch, name, at in ((batches[0], _HEADER, 0), (batches[-1], _FOOTER, -1)):
        probe.expect(batch.header.is_control, f"the batch of {name} is no control batch")
        found = decode_control_record(batch.records[at]).name
        probe.expect(found == name, f"the snapshot has {found} in the place of {name}")


@FAMILY.rule("epoch-of-batches", source="KIP-630", section="Snapshot Format")
def epoch_of_batches(probe: Probe) -> None:
    """The batches of a snapshot have the snapshot's epoch, and offsets from 0 without a gap."""
    (_, epoch), batches = _batches(probe)
    expected = 0
    for header in (batch.header for batch in batches):
        probe.expect(
            (header.partition_leader_epoch, header.base_offset) == (epoch, expected),
            f"a batch has epoch {header.partition_leader_epoch} and offset {header.base_offset}, "
            f"not {epoch} and {expected}",
        )
        expected = header.next_offset
