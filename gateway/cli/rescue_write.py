"""Prepares and runs ``kwire rescue write``: reads the copies, asks for a leader, judges, writes.

The decisions are ``gateway.rescue``'s. It parses no options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy as shallow_copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from gateway.base.address import Address
from gateway.base.version import installed_version
from gateway.cli.rescue_json import verdict_json, voters_json
from gateway.cli.state import path_text
from gateway.log.files import meta_properties
from gateway.log.files.directory_lock import FILE_NAME as LOCK
from gateway.log.files.directory_lock import DirectoryLock
from gateway.log.files.errors import LogError, LogLocked
from gateway.log.metadata.listing import list_directory
from gateway.quorum.voter_set import VoterNode, VoterSet
from gateway.rescue.copies import Copy
from gateway.rescue.next_steps import next_steps
from gateway.rescue.plan import Plan, is_rescued, new_directory_id, new_meta, plan_rescue
from gateway.rescue.plan_snapshot import plan_snapshot
from gateway.rescue.read_copy import partition_directory, read_copy
from gateway.rescue.refusals import Request, Target, refusals
from gateway.rescue.verdict import Judgement, judge
from gateway.rescue.write import backup_of, finish, is_interrupted, journal_of, write_rescue
from gateway.security.client_properties import ClientSecurity
from kwire.cluster.difference import Change, difference
from kwire.cluster.levels import unknown_level
from kwire.errors import DecodeError
from kwire.metadata_log.at import At
from kwire.metadata_log.errors import MetadataLogError
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.state import load_state
from kwire.records import decode_metadata_record
from kwire.uuid import ZERO_UUID, Uuid

_ASK_S: Final = 5.0
#: The name of the controllers' listener where no voter of the log names one.
_LISTENER: Final = "CONTROLLER"
_KRAFT_VERSIONS: Final = (0, 1)


class NewVoter(NamedTuple):
    """A voter as ``--voter`` names it."""

    id: int
    address: Address
    directory_id: Uuid | None


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command."""

    source: Path
    targets: tuple[Path, ...]
    voters: tuple[NewVoter, ...]
    others: tuple[Path, ...]
    listener: str | None
    epoch: int | None
    accept_loss: bool
    snapshot: bool
    drop_controllers: bool
    cut_at: int | None
    #: How to connect to controllers; None: they are not asked.
    security: ClientSecurity | None


@dataclass(frozen=True, slots=True)
class Job:
    """A rescue that was judged. ``plan`` is None if it is refused, or done already."""

    asked: Asked
    source: Copy
    verdict: Judgement
    epoch: int
    voters: VoterSet
    targets: tuple[Target, ...]
    refusals: tuple[str, ...]
    is_done: bool
    plan: Plan | None
    #: The difference between the source's state and the rescued one, secrets hidden; and how many
    #: records of each type are dropped.
    changes: tuple[Change, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)

    def steps(self) -> list[str]:
        """The steps that follow the write."""
        return next_steps(self.plan, self.source, self.targets, self.verdict) if self.plan else []


def complete_interrupted(targets: Sequence[Path]) -> list[Path]:
    """Complete rescues of these directories that were interrupted, and return them. Raises
    click.ClickException.
    """
    found = [one for one in targets if is_interrupted(one)]
    for one in found:
        try:
            finish(one)
        except LogError as error:
            raise click.ClickException(str(error)) from None
    return found


def prepare(asked: Asked) -> Job:
    """Read everything and judge it; write nothing."""
    places = dict.fromkeys([asked.source, *asked.targets, *asked.others])
    copies = {one: read_copy(one) for one in places if one.exists()}
    source = copies[asked.source]
    every = list(copies.values())
    verdict = judge(every, source)
    epoch = asked.epoch if asked.epoch is not None else verdict.new_epoch or verdict.epoch_seen + 1
    targets = _targets(asked, copies)
    voters = _voters(asked, source, targets, epoch)
    is_done = bool(targets) and all(is_rescued(one.copy, voters) for one in targets)
    request = Request(
        source,
        every,
        voters,
        targets,
        epoch,
        asked.accept_loss,
        None if is_done else _leader(asked, source, voters),
        asked.snapshot,
        asked.cut_at,
    )
    found = (
        ()
        if is_done
        else (*_interrupted(asked), *refusals(request, verdict), *_locked(asked.targets))
    )
    job = Job(asked, source, verdict, epoch, voters, targets, tuple(found), is_done, None)
    if found or is_done:
        return job
    if not asked.snapshot:
        return replace(job, plan=plan_rescue(source, voters, epoch))
    return planned_by_snapshot(job)


def run(job: Job) -> list[Path]:
    """Write the plan into every target, and return the backups. Raises click.ClickException."""
    assert job.plan is not None, "a refused rescue is not run"
    backups = []
    for target in job.targets:
        meta = None
        if target.is_new:
            cluster = job.source.identity.cluster_id
            voter = job.voters.nodes[target.voter_id]
            assert cluster, "a new directory without a cluster is refused"
            directory = voter.directory_id
            if directory == ZERO_UUID:  # a static quorum: the voters have no ids of directories
                directory = new_directory_id(cluster, voter.id, job.epoch)
            meta = new_meta(cluster, voter.id, directory, job.source.last_timestamp)
        try:
            backup = write_rescue(
                job.plan,
                partition_directory(job.asked.source),
                Path(target.where),
                _facts(job, target),
                meta=meta,
            )
        except LogError as error:
            raise click.ClickException(str(error)) from None
        if backup is not None:
            backups.append(backup)
    return backups


def job_json(job: Job, *, written: bool) -> dict[str, Any]:
    """Return the job as an object."""
    return {
        "written": written,
        "done": job.is_done,
        "refusals": list(job.refusals),
        "from": job.source.where,
        "epoch": job.epoch,
        "epochSeen": job.verdict.epoch_seen,
        "endOffset": None if job.plan is None else job.plan.end_offset,
        "changes": [f"{one.change} {path_text(one.place)}" for one in job.changes],
        "dropped": dict(job.dropped),
        "appended": None if job.plan is None else job.plan.batch.hex(),
        "voters": voters_json(job.voters),
        "targets": [
            {
                "where": one.where,
                "nodeId": one.voter_id,
                "new": one.is_new,
                "backup": None if one.is_new else str(backup_of(Path(one.where), job.epoch)),
                "journal": str(journal_of(Path(one.where), job.epoch)),
            }
            for one in job.targets
        ],
        "verdict": verdict_json(job.verdict),
        "steps": job.steps(),
    }


def planned_by_snapshot(job: Job) -> Job:
    """Return the job with the plan of a snapshot, or with the reason why there can be none."""
    source, asked = job.source, job.asked
    end = source.end.end_offset if asked.cut_at is None else asked.cut_at
    try:
        whole = state = load_state([asked.source], At(offset=end))
        if end != source.end.end_offset:
            whole = load_state([asked.source], At(offset=source.end.end_offset))
        dropped = _dropped(asked.source, end, source.end.end_offset)
    except MetadataLogError as error:
        return replace(job, refusals=(f"the state cannot be built: {error.reason}",))
    except DecodeError as error:
        return replace(job, refusals=(f"a record cannot be read: {error}",))
    if (level := unknown_level(state.image.features)) is not None:
        return replace(job, refusals=(f"{level}: a snapshot would lose what it does not know",))
    image = shallow_copy(state.image)
    if asked.drop_controllers:
        kept = image.controllers.items()
        image.controllers = {id: one for id, one in kept if id in job.voters}
    plan = plan_snapshot(
        source,
        image,
        job.voters,
        job.epoch,
        end_offset=end,
        timestamp=state.timestamp,
        drops_controllers=asked.drop_controllers,
    )
    changes = [one.without_secrets() for one in difference(whole.image, image)]
    return replace(job, plan=plan, changes=tuple(changes), dropped=dropped)


def _dropped(source: Path, start: int, end: int) -> dict[str, int]:
    """Count the records from ``start`` to ``end`` by type. Raises DecodeError."""
    directory = partition_directory(source)
    found: Counter[str] = Counter()
    if directory is None or start >= end:
        return {}
    for base, _ in list_directory(str(directory)).segments:
        for header, records in read_log_file(directory / segment_name(base)):
            for record in records:
                if record.offset >= start and not header.is_control:
                    found[decode_metadata_record(record.value or b"")[0]] += 1
            # Here, because what follows may be damaged.
            if header.next_offset >= end:
                return dict(found)
    return dict(found)


# --- parts
# ---------------------------------------------------------------------------


def _targets(asked: Asked, copies: dict[Path, Copy]) -> tuple[Target, ...]:
    """Return the directories to write, each with its voter: by ``meta.properties``, the new ones in
    the order of the voters that are left.
    """
    known = {one: copies.get(one, Copy(str(one))) for one in asked.targets}
    is_new = {
        path: copy.is_empty and not (path / meta_properties.FILE_NAME).exists()
        for path, copy in known.items()
    }
    named = {copy.identity.node_id for path, copy in known.items() if not is_new[path]}
    left = [one.id for one in asked.voters if one.id not in named]
    targets = []
    for path, copy in known.items():
        if is_new[path]:
            node_id = left.pop(0) if left else -1
        else:
            node_id = -1 if copy.identity.node_id is None else copy.identity.node_id
        targets.append(Target(str(path), node_id, copy, is_new[path]))
    return tuple(targets)


def _voters(asked: Asked, source: Copy, targets: Sequence[Target], epoch: int) -> VoterSet:
    known = {
        one.voter_id: one.copy.identity.directory_id
        for one in targets
        if one.copy.identity.directory_id is not None
    }
    cluster = source.identity.cluster_id or ""
    name = asked.listener or _listener_of(source)
    nodes = []
    for one in asked.voters:
        directory = (
            one.directory_id or known.get(one.id) or new_directory_id(cluster, one.id, epoch)
        )
        if source.kraft_version == 0:
            directory = ZERO_UUID
        nodes.append(VoterNode(one.id, directory, {name: one.address}, _KRAFT_VERSIONS))
    return VoterSet.of(nodes)


def _listener_of(source: Copy) -> str:
    voters = source.newest_voters
    names = [name for one in voters or () for name in one.endpoints]
    return names[0] if names else _LISTENER


def _leader(asked: Asked, source: Copy, voters: VoterSet) -> str | None:
    """Ask every controller that the log or the options name; return a sentence if the quorum has a
    leader.
    """
    if asked.security is None:
        return None
    from gateway.cli.quorum_ask import ask

    old = source.newest_voters or ()
    addresses = dict.fromkeys(at for one in (*old, *voters) for at in one.endpoints.values())
    try:
        quorum = ask(tuple(addresses), True, asked.security, _ASK_S)
    except click.ClickException:
        # No controller that has a leader answers: this is what a rescue is for.
        return None
    partition = quorum.partition
    return (
        f"the quorum of cluster {quorum.cluster_id} has a leader, node {partition.leader_id} in"
        f" epoch {partition.leader_epoch}: there is nothing to rescue; --no-ask if that is another"
        " cluster at the same addresses"
    )


def _interrupted(asked: Asked) -> list[str]:
    return [
        f"an earlier rescue of {one} was interrupted: the same command with --yes completes it"
        for one in asked.targets
        if is_interrupted(one)
    ]


def _locked(targets: Sequence[Path]) -> list[str]:
    """Return a sentence for each directory that a process has open."""
    found = []
    for one in targets:
        # Taking the lock would create its file, and a dry run changes nothing.
        if (one / LOCK).exists():
            try:
                DirectoryLock(one).release()
            except LogLocked:
                found.append(f"{one} is in use by a running process: stop its node first")
            except LogError as error:
                found.append(str(error))
    return found


def _facts(job: Job, target: Target) -> dict[str, Any]:
    return {
        "kwire": installed_version(),
        "from": job.source.where,
        "to": target.where,
        "copies": [job.source.where, *(one.copy.where for one in job.verdict.beside)],
        "sourceEndOffset": job.source.end.end_offset,
        "sourceEpoch": job.source.end.epoch,
        "voters": voters_json(job.voters),
        "acceptLoss": job.asked.accept_loss,
        "snapshot": job.asked.snapshot,
        "dropControllers": job.asked.drop_controllers,
        "cutAt": job.asked.cut_at,
        "dropped": dict(job.dropped),
        "verdict": verdict_json(job.verdict),
        "steps": job.steps(),
    }
