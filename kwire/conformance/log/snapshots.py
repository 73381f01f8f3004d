"""Reads snapshots: their frame of control records, and the state that they hold (KIP-630)."""

from __future__ import annotations

from typing import Final

from kwire.cluster.difference import difference
from kwire.cluster.image import Image
from kwire.conformance.log import rules
from kwire.conformance.log.batches import ReadBatch, control_records, read_batches
from kwire.conformance.log.findings import Findings
from kwire.conformance.log.layout import Snapshot
from kwire.conformance.log.metadata import Replay
from kwire.metadata_log.open_file import read_regular

_HEADER: Final = "SNAPSHOT_HEADER"
_FOOTER: Final = "SNAPSHOT_FOOTER"
#: Places of a difference that a sentence names.
_PLACES_MAX: Final = 3


def read_snapshot(findings: Findings, snapshot: Snapshot) -> Image | None:
    """Return the state of a snapshot, None where it cannot be read whole."""
    data = read_regular(snapshot.path)
    batches = list(read_batches(findings, snapshot.path, data, may_be_torn=False))
    _check_frame(findings, snapshot, batches)
    replay = Replay(findings)
    expected = 0
    for batch in batches:
        header = batch.header
        if header.base_offset != expected:
            findings.wrong(
                rules.OFFSETS, snapshot.path, batch.position,
                f"offset {header.base_offset} follows {expected - 1}",
            )  # fmt: skip
        expected = header.next_offset
        if header.is_control:
            replay.skip(batch)
        else:
            replay.take(batch)
    is_whole = bool(batches) and batches[-1].header.end == len(data) and replay.is_whole
    return replay.image if is_whole else None


def _check_frame(findings: Findings, snapshot: Snapshot, batches: list[ReadBatch]) -> None:
    names = [
        record.name
        for batch in batches
        if batch.header.is_control
        for record in control_records(findings, batch)
    ]
    first_is_control = bool(batches) and batches[0].header.is_control
    last_is_control = bool(batches) and batches[-1].header.is_control
    if not first_is_control or names[:1] != [_HEADER] or names.count(_HEADER) != 1:
        findings.wrong(
            rules.SNAPSHOT_FRAME, snapshot.path, 0, f"it begins with {names[:1] or 'metadata'}"
        )
    if not last_is_control or names[-1:] != [_FOOTER] or names.count(_FOOTER) != 1:
        end = batches[-1].position if batches else 0
        findings.wrong(rules.SNAPSHOT_FRAME, snapshot.path, end, "it does not end with its footer")
    for batch in batches:
        if batch.header.partition_leader_epoch != snapshot.epoch:
            findings.wrong(
                rules.SNAPSHOT_EPOCH, snapshot.path, batch.position,
                f"a batch has epoch {batch.header.partition_leader_epoch}, the name "
                f"{snapshot.epoch}",
            )  # fmt: skip
            return


def compare(findings: Findings, snapshot: Snapshot, of_snapshot: Image, of_log: Image) -> None:
    """Report the places in which a snapshot differs from the state of the log below its end."""
    changes = [change.without_secrets() for change in difference(of_log, of_snapshot)]
    if not changes:
        return
    named = ", ".join(
        f"{'/'.join(change.place)} {change.change}" for change in changes[:_PLACES_MAX]
    )
    more = f" and {len(changes) - _PLACES_MAX} more" if len(changes) > _PLACES_MAX else ""
    findings.wrong(
        rules.SNAPSHOT_STATE, snapshot.path, -1,
        f"against the log below {snapshot.end_offset} it has {named}{more}",
    )  # fmt: skip
