"""Tries rescued directories: opens copies of them as kwire's own voters would, lets them elect a
leader (``rescue_election``), and compares the state of the cluster before and after.

Time is virtual, and no message leaves the process; ``rescue_kafka`` starts Kafka where that is
asked for.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from gateway.base.address import Address
from gateway.cli.rescue_election import Elected, Election, Voter
from gateway.cli.rescue_kafka import lead_with_kafka
from gateway.log.files import meta_properties
from gateway.log.files.errors import LogError
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.partition.log_settings import LogSettings
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

#: A static quorum has no listener in its log; no node connects to this one.
_LISTENER: Final = "CONTROLLER"
_NO_ADDRESS: Final = Address("127.0.0.1", 1)


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome: faults, in what the states differ from the source's, and the leader."""

    faults: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    elected: Elected | None = None
    #: The nodes whose directories were checked, and the offset behind their last record.
    nodes: tuple[int, ...] = ()
    records: int = 0
    #: The epoch that Kafka's controller led; None if it was not started.
    kafka_epoch: int | None = None


def check(
    directories: Sequence[Path],
    source: Path | None,
    kafka: Path | None = None,
    timeout_s: float = 60,
) -> Checked:
    """Check copies of ``directories``, which stay as they are, as the voters of one quorum;
    ``source``: the copy that they were made from; ``kafka``: the directory of a Kafka release to
    start on another copy of the only one. Raises click.ClickException.
    """
    copies = [read_copy(directory) for directory in directories]
    if faults := _faults(copies):
        return Checked(faults)
    nodes = tuple(copy.identity.node_id or 0 for copy in copies)
    end = max(copy.end.end_offset for copy in copies)
    with tempfile.TemporaryDirectory(prefix="kwire-rescue-check-") as scratch:
        clones = [Path(scratch) / str(number) for number in range(len(copies))]
        for directory, clone in zip(directories, clones, strict=True):
            _clone(directory, clone)
        try:
            elected = _elect(clones, copies)
        except LogError as error:
            return Checked((str(error),))
        changes = {
            (change.change, change.place): change
            for directory, clone in zip(directories, clones, strict=True)
            for change in _changes(source or directory, clone, end)
        }
        kafka_epoch = None
        if kafka is not None:
            _clone(directories[0], other := Path(scratch) / "kafka" / "node")
            kafka_epoch = lead_with_kafka(other, copies[0], kafka, timeout_s)
    return Checked(
        () if elected else (_no_leader(nodes, copies[0]),),
        tuple(changes.values()),
        elected,
        nodes,
        end,
        kafka_epoch,
    )


def _faults(copies: Sequence[Copy]) -> tuple[str, ...]:
    faults = [str(one) for copy in copies for one in copy.damage]
    faults += [
        f"{copy.where} has no readable meta.properties, or no record"
        for copy in copies
        if copy.identity.node_id is None or copy.is_empty
    ]
    known = [copy.identity.node_id for copy in copies]
    faults += [
        f"{copy.where} is a directory of node {copy.identity.node_id}, and so is another one here"
        for number, copy in enumerate(copies)
        if copy.identity.node_id in known[:number]
    ]
    return tuple(faults)


def _no_leader(nodes: Sequence[int], copy: Copy) -> str:
    voters = ", ".join(str(one.id) for one in copy.newest_voters or ())
    if len(nodes) == 1:
        return f"node {nodes[0]} cannot lead alone: its voters are {voters}"
    return f"nodes {', '.join(map(str, nodes))} elect no leader: the voters are {voters}"


def check_json(checked: Checked) -> dict[str, Any]:
    """Return the outcome as an object."""
    return {
        "passed": not checked.faults and not checked.changes,
        "faults": list(checked.faults),
        "changed": [f"{one.change} /{'/'.join(one.place)}" for one in checked.changes],
        "leaderId": None if checked.elected is None else checked.elected.leader_id,
        "ledEpoch": None if checked.elected is None else checked.elected.epoch,
        "endOffset": checked.records,
        "kafkaLedEpoch": checked.kafka_epoch,
    }


def check_lines(checked: Checked) -> Iterator[str]:
    """Yield the outcome in sentences."""
    yield from (f"fault: {one}" for one in checked.faults)
    yield from (f"differs: {one.change} /{'/'.join(one.place)}" for one in checked.changes)
    if checked.elected is not None:
        leader, epoch = checked.elected
        alone = "the node elected itself"
        together = f"nodes {', '.join(map(str, checked.nodes))} elected node {leader}"
        yield f"{alone if len(checked.nodes) == 1 else together} in epoch {epoch}"
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


def _elect(clones: Sequence[Path], copies: Sequence[Copy]) -> Elected | None:
    """Run the clones as voters until one leads. Raises LogError."""
    wall_ms = max(max(copy.last_timestamp or 0 for copy in copies), 0)
    with contextlib.ExitStack() as stack:
        voters = [
            stack.enter_context(_voter(clone, copy, wall_ms))
            for clone, copy in zip(clones, copies, strict=True)
        ]
        return Election(voters, wall_ms).run()


@contextlib.contextmanager
def _voter(clone: Path, copy: Copy, wall_ms: int) -> Iterator[Voter]:
    node_id = copy.identity.node_id
    assert node_id is not None, "a copy without a node id is a fault"
    static = sorted(copy.election.voter_ids if copy.election else ())
    store = RaftStore.open(clone, LogSettings(fsync=False), node_id=node_id, static_voters=static)
    with contextlib.closing(store):
        settings = _settings(copy, store, static)
        # Voters whose timeouts end together elect no leader.
        chance = random.Random(node_id).random
        with contextlib.closing(QuorumLog(store, snapshot_prefix=False)) as log:
            raft = Raft(settings, stored(store.stored()), random=chance, now=0.0, wall_ms=wall_ms)
            addresses = list(settings.endpoints.values())
            yield Voter(raft, log, addresses, settings.listener, copy.end.end_offset)


def _settings(copy: Copy, store: RaftStore, static: Sequence[int]) -> RaftSettings:
    voters = copy.newest_voters or VoterSet({})
    node_id = copy.identity.node_id or 0
    known = voters.nodes.get(node_id)
    # No node is dialled: an address is a name of a voter here.
    names = {one: Address("127.0.0.1", 1 + number) for number, one in enumerate(static)}
    endpoints = dict(known.endpoints) if known else {_LISTENER: names.get(node_id, _NO_ADDRESS)}
    return RaftSettings(
        node_id=node_id,
        directory_id=copy.identity.directory_id or ZERO_UUID,
        cluster_id=store.cluster_id,
        listener=next(iter(endpoints)),
        endpoints=endpoints,
        static_voters={} if copy.newest_voters else names,
    )


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
