"""Decides whether a rescue may be written, and says in words why not.

It reads no file. Nothing here can be forced but the loss of records, which is a decision of the
operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.quorum.voter_set import VoterSet
from gateway.rescue.copies import Copy
from gateway.rescue.verdict import EPOCH_MAX, Judgement, is_ahead
from kwire.uuid import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Target:
    """A directory to write: the voter that it is for, and the copy that is there now. ``is_new``:
    there is no ``meta.properties`` and no log.
    """

    where: str
    voter_id: int
    copy: Copy
    is_new: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A rescue as it was asked for. ``leader``: the sentence about a quorum that has one."""

    source: Copy
    copies: Sequence[Copy]
    voters: VoterSet
    targets: Sequence[Target]
    epoch: int
    accept_loss: bool = False
    leader: str | None = None
    by_snapshot: bool = False
    #: Drop the records from this offset on.
    cut_at: int | None = None


def refusals(asked: Request, verdict: Judgement) -> list[str]:
    """Return a sentence for each reason not to write; none if the rescue may be written."""
    return [
        *([asked.leader] if asked.leader else []),
        *_source(asked, verdict),
        *_epoch(asked, verdict),
        *_voters(asked),
        *(sentence for one in asked.targets for sentence in _target(asked, one)),
    ]


def _source(asked: Request, verdict: Judgement) -> Iterator[str]:
    source = asked.source
    yield from verdict.objections
    if source.is_empty:
        yield f"{source.where} has no record: there is nothing to rescue from it"
        return
    if source.is_snapshot and not asked.by_snapshot:
        yield f"{source.where} is a snapshot file: give the directory of a log, or --snapshot"
    yield from _cut(asked)
    # A snapshot holds what lies before the damage; the rest is a loss that has to be accepted.
    for one in () if asked.by_snapshot and asked.accept_loss else source.damage:
        yield (
            f"{source.where} is damaged: {one}; use a copy that is whole, and do not let Kafka"
            " start on this one, because it would cut it silently; if there is no other, --snapshot"
            f" --accept-loss goes on with what lies before offset {source.end.end_offset}"
        )
    better = max(asked.copies, key=lambda one: one.end)
    if is_ahead(better.end, source.end):
        yield (
            f"{better.where} reaches further (offset {better.end.end_offset} in epoch"
            f" {better.end.epoch}) than {source.where} (offset {source.end.end_offset} in epoch"
            f" {source.end.epoch}): give --from {better.where}"
        )
    loss = verdict.loss
    if loss is not None and not loss.is_excluded and not asked.accept_loss:
        yield (
            f"a loss of committed records from offset {loss.from_offset} on cannot be excluded:"
            f" {loss.reason}; give every copy at hand with --copy, and --accept-loss if there is"
            " no other"
        )


def _cut(asked: Request) -> Iterator[str]:
    cut, source = asked.cut_at, asked.source
    if cut is None:
        return
    if not source.start_offset <= cut <= source.end.end_offset:
        yield (
            f"--cut-at {cut}: {source.where} has the states from offset {source.start_offset} to"
            f" {source.end.end_offset}"
        )
    elif cut < source.end.end_offset and not asked.accept_loss:
        yield (
            f"--cut-at {cut} drops the records {cut} to {source.end.end_offset - 1}: that is a"
            " loss, which --accept-loss accepts"
        )


def _epoch(asked: Request, verdict: Judgement) -> Iterator[str]:
    if asked.epoch > EPOCH_MAX:
        yield f"epoch {asked.epoch} is too high: {EPOCH_MAX} is the last that can be led"
    elif asked.epoch <= verdict.epoch_seen:
        yield (
            f"epoch {asked.epoch} is not above {verdict.epoch_seen}, which a copy has seen: two"
            " histories would exist in one epoch"
        )


def _voters(asked: Request) -> Iterator[str]:
    contents, known = asked.source.contents, asked.source.newest_voters
    directories = [one.directory_id for one in asked.voters if one.directory_id != ZERO_UUID]
    if len(set(directories)) < len(directories):
        yield "two voters have the same directory id: each directory has its own"
    written = {one.voter_id for one in asked.targets}
    if missing := [one.id for one in asked.voters if one.id not in written]:
        yield (
            f"voter {missing[0]} has no --to: all voters of the new quorum are written together,"
            " because they need the same log"
        )
    if extra := sorted(written - {one.id for one in asked.voters}):
        yield f"node {extra[0]} is no voter of the new quorum: give it with --voter"
    for one in asked.voters:
        # A combined node has one id for both of its roles.
        if contents and one.id in contents.broker_ids and (known is None or one.id not in known):
            if asked.source.election and one.id in asked.source.election.voter_ids:
                continue
            yield f"{one.id} is the id of a broker of this cluster: give the voter another id"


def _target(asked: Request, target: Target) -> Iterator[str]:
    identity, where = target.copy.identity, target.where
    if target.is_new:
        if not asked.source.identity.cluster_id:
            yield (
                f"{where} is new, and {asked.source.where} names no cluster: format it first, or"
                " give the data directory that has meta.properties"
            )
        return
    if identity.node_id is None:
        yield f"{where} has a log and no readable meta.properties: it says whose directory it is"
        return
    if identity.is_gateway:
        yield f"{where} is the copy of a gateway, which is no controller: give a controller's"
    cluster = asked.source.identity.cluster_id
    if cluster and identity.cluster_id != cluster:
        yield f"{where} belongs to cluster {identity.cluster_id}, not to {cluster}"
    voter = asked.voters.nodes.get(target.voter_id)
    if voter is not None and asked.source.kraft_version > 0:
        if identity.directory_id is None:
            yield f"{where} has no directory.id, which a voter of a dynamic quorum needs"
        elif identity.directory_id != voter.directory_id:
            yield (
                f"{where} has directory id {identity.directory_id}, and --voter names"
                f" {voter.directory_id}: the node would not be the voter"
            )
