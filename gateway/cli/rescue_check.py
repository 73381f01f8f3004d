"""Tries a rescued directory: opens a copy of it as kwire's own voter would, lets it elect itself,
and compares the state of the cluster before and after.

Time is virtual, and no message leaves the process; ``rescue_kafka`` starts Kafka where that is
asked for.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from gateway.base.address import Address
from gateway.cli.rescue_kafka import lead_with_kafka
from gateway.log.files import meta_properties
from gateway.log.files.errors import LogError
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.partition.log_settings import LogSettings
from gateway.quorum.effects import Advance, Append, Effect, Persist
from gateway.quorum.events import Durable, Tick
from gateway.quorum.raft import Raft
from gateway.quorum.settings import RaftSettings
from gateway.quorum.voter_set import VoterSet
from gateway.rescue.copies import Copy
from gateway.rescue.read_copy import partition_directory, read_copy
from gateway.server.quorum.initial_state import stored
from gateway.sources.quorum_log import QuorumLog
from kwire.cluster.difference import Change, difference
from kwire.metadata_log.at import At
from kwire.metadata_log.errors import MetadataLogError
from kwire.metadata_log.state import load_state
from kwire.protocol import CLUSTER_METADATA_PARTITION
from kwire.uuid import ZERO_UUID

#: An election of a single voter takes a few steps; one of several voters never ends here.
_STEPS_MAX: Final = 200
#: A static quorum has no listener in its log; no node connects to this one.
_LISTENER: Final = "CONTROLLER"
_NO_ADDRESS: Final = Address("127.0.0.1", 1)


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome: faults, what a source's state differs in, and the epoch that the node leads."""

    faults: tuple[str, ...]
    changes: tuple[Change, ...]
    led_epoch: int | None
    records: int
    #: The epoch that Kafka's controller led; None if it was not started.
    kafka_epoch: int | None = None


def check(
    directory: Path, source: Path | None, kafka: Path | None = None, timeout_s: float = 60
) -> Checked:
    """Check a copy of ``directory``, which stays as it is; ``source``: the copy that it was made
    from; ``kafka``: the directory of a Kafka release to start on another copy. Raises
    click.ClickException.
    """
    copy = read_copy(directory)
    faults = [str(one) for one in copy.damage]
    if copy.identity.node_id is None or copy.is_empty:
        faults.append("it has no readable meta.properties, or no record")
    if faults:
        return Checked(tuple(faults), (), None, 0)
    with tempfile.TemporaryDirectory(prefix="kwire-rescue-check-") as scratch:
        clone = Path(scratch) / "node"
        _clone(directory, clone)
        try:
            epoch = _elect(clone, copy)
        except LogError as error:
            return Checked((str(error),), (), None, 0)
        end = copy.end.end_offset
        changes = list(_changes(source or directory, clone, end))
        kafka_epoch = None
        if kafka is not None:
            _clone(directory, other := Path(scratch) / "kafka" / "node")
            kafka_epoch = lead_with_kafka(other, copy, kafka, timeout_s)
    if epoch is None:
        voters = ", ".join(str(one.id) for one in copy.newest_voters or ())
        faults.append(f"node {copy.identity.node_id} cannot lead alone: its voters are {voters}")
    return Checked(tuple(faults), tuple(changes), epoch, end, kafka_epoch)


def check_json(checked: Checked) -> dict[str, Any]:
    """Return the outcome as an object."""
    return {
        "passed": not checked.faults and not checked.changes,
        "faults": list(checked.faults),
        "changed": [f"{one.change} /{'/'.join(one.place)}" for one in checked.changes],
        "ledEpoch": checked.led_epoch,
        "endOffset": checked.records,
        "kafkaLedEpoch": checked.kafka_epoch,
    }


def check_lines(checked: Checked) -> Iterator[str]:
    """Yield the outcome in sentences."""
    yield from (f"fault: {one}" for one in checked.faults)
    yield from (f"differs: {one.change} /{'/'.join(one.place)}" for one in checked.changes)
    if checked.led_epoch is not None:
        yield f"the node elected itself in epoch {checked.led_epoch}"
    if checked.kafka_epoch is not None:
        yield f"Kafka's controller led in epoch {checked.kafka_epoch}"
    if not checked.faults and not checked.changes:
        yield f"the state is the same as before, through offset {checked.records - 1}"


def _clone(directory: Path, clone: Path) -> None:
    inside = partition_directory(directory)
    assert inside is not None, "a copy with records has a partition's directory"
    (clone / CLUSTER_METADATA_PARTITION).mkdir(parents=True)
    for path in inside.iterdir():
        if path.is_file():
            shutil.copyfile(path, clone / CLUSTER_METADATA_PARTITION / path.name)
    shutil.copyfile(inside.parent / meta_properties.FILE_NAME, clone / meta_properties.FILE_NAME)


def _elect(clone: Path, copy: Copy) -> int | None:
    """Run the clone as a voter until it has committed a record of its own; return the epoch, None
    if it does not get there alone. Raises LogError.
    """
    node_id = copy.identity.node_id
    assert node_id is not None
    static = copy.election.voter_ids if copy.election else ()
    store = RaftStore.open(
        clone, LogSettings(fsync=False), node_id=node_id, static_voters=sorted(static)
    )
    try:
        log = QuorumLog(store, snapshot_prefix=False)
        try:
            raft = Raft(
                _settings(copy, store, static),
                stored(store.stored()),
                random=lambda: 0.5,
                now=0.0,
                wall_ms=max(copy.last_timestamp or 0, 0),
            )
            return _run(raft, log, max(copy.last_timestamp or 0, 0), copy.end.end_offset)
        finally:
            log.close()
    finally:
        store.close()


def _settings(copy: Copy, store: RaftStore, static: Sequence[int]) -> RaftSettings:
    voters = copy.newest_voters or VoterSet({})
    known = voters.nodes.get(copy.identity.node_id or 0)
    endpoints = dict(known.endpoints) if known else {_LISTENER: _NO_ADDRESS}
    return RaftSettings(
        node_id=copy.identity.node_id or 0,
        directory_id=copy.identity.directory_id or ZERO_UUID,
        cluster_id=store.cluster_id,
        listener=next(iter(endpoints)),
        endpoints=endpoints,
        static_voters={} if copy.newest_voters else dict.fromkeys(static, _NO_ADDRESS),
    )


def _run(raft: Raft, log: QuorumLog, wall_ms: int, end: int) -> int | None:
    now = 0.0
    effects: Sequence[Effect] = raft.start(now, wall_ms)
    for _ in range(_STEPS_MAX):
        # A voter that is alone fetches no snapshot and truncates nothing.
        disk = [one for one in effects if isinstance(one, Persist | Append)]
        if any(isinstance(one, Advance) and one.high_watermark > end for one in effects):
            return raft.epoch
        if disk:
            log.perform(disk)
            effects = raft.step(Durable(disk[-1].token), now, wall_ms)
        else:
            now = max(now, min(raft.deadline, now + 1))
            effects = raft.step(Tick(), now, wall_ms)
    return None


def _changes(source: Path, clone: Path, end: int) -> Iterator[Change]:
    """Yield how the state at the clone's end differs from that of the source. Raises
    click.ClickException.
    """
    before = read_copy(source).end.end_offset
    try:
        states = [
            load_state([source], At(offset=min(end, before))),
            load_state([clone], At()),
        ]
    except MetadataLogError as error:
        raise click.ClickException(str(error)) from None
    yield from difference(states[0].image, states[1].image)
