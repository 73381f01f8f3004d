"""Checks the small files of a log directory, and the offset indexes of its segments."""

from __future__ import annotations

import itertools
import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kwire.conformance.log import rules
from kwire.conformance.log.findings import Findings
from kwire.conformance.log.layout import Segment
from kwire.metadata_log.open_file import read_regular
from kwire.protocol import METADATA_TOPIC_ID

_BYTES_MAX: Final = 1 << 20
_ENTRY: Final = struct.Struct(">ii")


def check_leader_epochs(
    findings: Findings, file: Path, epochs: Sequence[tuple[int, int]], end: int
) -> None:
    """Compare leader-epoch-checkpoint with the (epoch, first offset) pairs of the log.

    The file may lack the newest epochs. For the epoch in which the log starts it can name any
    offset of that epoch: Kafka moves it when it deletes what a snapshot covers.
    """
    text = _text(file)
    lines = text.splitlines()
    entries = [(int(a), int(b)) for a, b in re.findall(r"(?m)^(\d{1,19}) (\d{1,19})$", text)]
    if lines[:1] != ["0"] or lines[1:2] != [str(len(entries))] or len(lines) != len(entries) + 2:
        findings.damaged(rules.EPOCH_CHECKPOINT, file, -1, f"{len(lines)} lines are no checkpoint")
        return
    for before, after in itertools.pairwise(entries):
        if after[0] <= before[0] or after[1] < before[1]:
            findings.wrong(rules.EPOCH_CHECKPOINT, file, -1, f"{after} follows {before}")
    _check_epochs_between(findings, file, epochs, entries)
    ends = [offset for _, offset in epochs[1:]] + [end]
    known = {epoch: (first, last) for (epoch, first), last in zip(epochs, ends, strict=False)}
    for number, (epoch, offset) in enumerate(entries):
        first, last = known.get(epoch, (-1, -1))
        in_epoch = first <= offset <= last if number == 0 else offset == first
        if epoch in known and not in_epoch:
            findings.wrong(
                rules.EPOCH_CHECKPOINT, file, -1,
                f"epoch {epoch} is at {offset}, in the log it begins at {first}",
            )  # fmt: skip
        elif epochs and epoch not in known and offset >= epochs[0][1]:
            findings.wrong(
                rules.EPOCH_CHECKPOINT, file, -1, f"epoch {epoch} at {offset} is not in the log"
            )


def _check_epochs_between(
    findings: Findings,
    file: Path,
    epochs: Sequence[tuple[int, int]],
    entries: Sequence[tuple[int, int]],
) -> None:
    """Report epochs of the log that the file lacks, between its first and last."""
    named = {epoch for epoch, _ in entries}
    for epoch, offset in epochs:
        if epoch not in named and entries and entries[0][0] < epoch < entries[-1][0]:
            findings.wrong(
                rules.EPOCH_CHECKPOINT,
                file,
                -1,
                f"it lacks epoch {epoch}, which begins at {offset}",
            )


def check_quorum_state(
    findings: Findings, file: Path, last_epoch: int | None, log_leader: int | None
) -> None:
    """Check quorum-state against the last epoch of the log, and the leader that the log names for
    it.
    """
    try:
        value: Any = json.loads(_text(file))
        epoch, leader, voted = value["leaderEpoch"], value["leaderId"], value["votedId"]
        numbers = all(type(one) is int for one in (epoch, leader, voted))
        if not numbers or value["data_version"] not in (0, 1):
            raise ValueError(f"data_version {value['data_version']}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        findings.damaged(rules.QUORUM_STATE, file, -1, f"it does not parse: {error!r}")
        return
    if epoch < 0 or leader < -1 or voted < -1:
        findings.wrong(
            rules.QUORUM_STATE, file, -1, f"epoch {epoch}, leader {leader}, vote {voted}"
        )
    if last_epoch is not None and epoch < last_epoch:
        findings.wrong(
            rules.QUORUM_STATE, file, -1, f"its epoch is {epoch}, the log has epoch {last_epoch}"
        )
    if epoch == last_epoch and log_leader is not None and leader not in (-1, log_leader):
        findings.wrong(
            rules.QUORUM_STATE, file, -1,
            f"the leader of epoch {epoch} is {leader}, in the log {log_leader}",
        )  # fmt: skip


def check_partition_metadata(findings: Findings, file: Path) -> None:
    """Check partition.metadata."""
    found = dict(re.findall(r"(?m)^(\w+): ?(.*)$", _text(file)))
    if found.keys() != {"version", "topic_id"}:
        findings.damaged(rules.PARTITION_METADATA, file, -1, f"it has the keys {sorted(found)}")
    elif found["version"] != "0" or found["topic_id"] != str(METADATA_TOPIC_ID):
        findings.wrong(
            rules.PARTITION_METADATA, file, -1,
            f"version {found['version']}, topic id {found['topic_id']}",
        )  # fmt: skip


def check_meta_properties(findings: Findings, file: Path) -> None:
    """Check meta.properties of the directory above."""
    found = dict(re.findall(r"(?m)^([\w.]+) *[=:] *(.*)$", _text(file)))
    missing = [
        " or ".join(names)
        for names in (("version",), ("cluster.id",), ("node.id", "broker.id"))
        if not any(found.get(name) for name in names)
    ]
    if missing:
        findings.damaged(rules.META_PROPERTIES, file, -1, f"it lacks {', '.join(missing)}")
    elif found["version"] not in ("0", "1"):
        findings.wrong(rules.META_PROPERTIES, file, -1, f"version {found['version']}")


def check_index(
    findings: Findings, segment: Segment, batches: Sequence[tuple[int, int, int]]
) -> None:
    """Compare an offset index with the batches of its segment: (position, first, last offset).

    The file of the active segment is longer than its entries; what is not written is zeros.
    """
    data = read_regular(segment.index)
    if more := len(data) % _ENTRY.size:
        findings.damaged(
            rules.OFFSET_INDEX, segment.index, len(data) - more,
            f"{more} bytes are no entry of {_ENTRY.size}",
        )  # fmt: skip
    by_position = {position: (first, last) for position, first, last in batches}
    before = (-1, -1)
    for at in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
        relative, position = entry = _ENTRY.unpack_from(data, at)
        if entry == (0, 0) and at > 0:
            break
        if entry == (0, 0) and not any(data):
            break
        first, last = by_position.get(position, (-1, -2))
        offset = segment.base_offset + relative
        if relative <= before[0] or not first <= offset <= last:
            findings.wrong(
                rules.OFFSET_INDEX, segment.index, at,
                f"offset {offset} is not in a batch at position {position}",
            )  # fmt: skip
            return
        before = entry


def _text(file: Path) -> str:
    return read_regular(file, _BYTES_MAX).decode("utf-8", "replace")
