"""Rules of leader epochs in Fetch (KIP-320, KIP-595, KIP-951)."""

from __future__ import annotations

from typing import Final

from kwire.conformance.fetch_fixtures import batches_of, end_of, good_fetch
from kwire.conformance.fixtures import (
    LATEST,
    fetch,
    list_offset,
    readable,
)
from kwire.conformance.probe import Probe
from kwire.conformance.rule import BROKER, Changes, Family, Level
from kwire.protocol import ApiKey, ErrorCode

_APIS: Final = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA)
_FUTURE_EPOCH: Final = 2_000_000_000

FAMILY: Final = Family(
    "fetch-epochs",
    "Leader epochs in Fetch",
    roles=BROKER,
    apis=_APIS,
    changes=Changes.OWN,
    since="2.1",
)


@FAMILY.rule("epoch-of-the-future", source="KIP-320", section="Fetch v9")
def epoch_of_the_future(probe: Probe) -> None:
    """A current leader epoch above that of the leader has error UNKNOWN_LEADER_EPOCH."""
    version = probe.need(ApiKey.FETCH, *range(9, 19))
    where = readable(probe)
    one = fetch(probe, where, where.start, version, current_leader_epoch=_FUTURE_EPOCH)
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@FAMILY.rule("epoch-of-the-past", source="KIP-320", section="Fetch v9")
def epoch_of_the_past(probe: Probe) -> None:
    """A current leader epoch below that of the leader has error FENCED_LEADER_EPOCH."""
    version = probe.need(ApiKey.FETCH, *range(9, 19))
    where = readable(probe)
    if where.epoch == 0:
        probe.not_applicable("the leader epoch is 0, there is none below")
    one = fetch(probe, where, where.start, version, current_leader_epoch=where.epoch - 1)
    probe.expect_error(one.error_code, ErrorCode.FENCED_LEADER_EPOCH)


@FAMILY.rule("current-epoch", source="KIP-320", section="Fetch v9")
def current_epoch(probe: Probe) -> None:
    """The current leader epoch is accepted."""
    version = probe.need(ApiKey.FETCH, *range(9, 19))
    where = readable(probe)
    good_fetch(probe, where, where.start, version=version, current_leader_epoch=where.epoch)


@FAMILY.rule(
    "current-leader-named",
    source="KIP-951",
    section="CurrentLeader",
    since="3.7",
    level=Level.SHOULD,
)
def current_leader_named(probe: Probe) -> None:
    """From version 12 on an answer without an error names no current leader."""
    version = probe.need(ApiKey.FETCH, *range(12, 19))
    where = readable(probe)
    one = good_fetch(probe, where, where.start, version=version)
    leader = one.current_leader
    probe.expect(
        (leader.leader_id, leader.leader_epoch) == (-1, -1),
        f"the answer names leader {leader.leader_id} of epoch {leader.leader_epoch}",
    )


@FAMILY.rule("diverging-epoch", source="KIP-595", section="Fetch: DivergingEpoch", since="2.7")
def diverging_epoch(probe: Probe) -> None:
    """From version 12 on a fetch whose last fetched epoch ends before its offset is answered with
    the diverging epoch and its end offset, without error and records.
    """
    version = probe.need(ApiKey.FETCH, *range(12, 19))
    where = readable(probe)
    end = end_of(probe, where)
    epoch = list_offset(probe, where.topic, where.index, LATEST).leader_epoch
    if epoch < 0:
        probe.not_applicable("the server does not tell leader epochs")
    one = good_fetch(probe, where, end + 100, version=version, last_fetched_epoch=epoch)
    found = one.diverging_epoch
    probe.expect(found.epoch == epoch, f"epoch {epoch} is answered with {found.epoch}")
    probe.expect(found.end_offset >= where.end, f"the epoch ends at {found.end_offset}, not {end}")
    probe.expect(not one.records, "an answer with a diverging epoch has records")


@FAMILY.rule("no-diverging-epoch", source="KIP-595", section="Fetch: DivergingEpoch", since="2.7")
def no_diverging_epoch(probe: Probe) -> None:
    """A fetch whose last fetched epoch is right has no diverging epoch, and gets records."""
    version = probe.need(ApiKey.FETCH, *range(12, 19))
    where = readable(probe)
    first = batches_of(probe, good_fetch(probe, where, where.start, version=version))
    if len(first) < 2:
        probe.not_applicable("there is only one batch")
    one = good_fetch(
        probe, where, first[0].next_offset, version=version,
        last_fetched_epoch=first[0].partition_leader_epoch,
    )  # fmt: skip
    probe.expect(
        (one.diverging_epoch.epoch, one.diverging_epoch.end_offset) == (-1, -1),
        f"the answer diverges at epoch {one.diverging_epoch.epoch}",
    )
    probe.expect(bool(batches_of(probe, one)), "there are no records")
