"""Makes JSON of copies of a metadata log and of the verdict on them. It reads no copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.log.metadata.releases import release_of
from gateway.quorum.voter_set import VoterSet
from gateway.rescue.copies import Copy
from gateway.rescue.verdict import OTHER, Judgement, role_of, static_voters
from kwire.metadata_log.at import time_text


def inspect_json(copies: Sequence[Copy], verdict: Judgement) -> dict[str, Any]:
    """Return everything that ``inspect`` found as one object."""
    return {
        "copies": [copy_json(one, role_in(one, copies, verdict)) for one in copies],
        "verdict": verdict_json(verdict),
    }


def copy_json(copy: Copy, role: str) -> dict[str, Any]:
    """Return the facts about one copy."""
    who, contents, election = copy.identity, copy.contents, copy.election
    return {
        "where": copy.where,
        "role": role,
        "nodeId": who.node_id,
        "directoryId": None if who.directory_id is None else str(who.directory_id),
        "clusterId": who.cluster_id,
        "kraftVersion": copy.kraft_version,
        "voters": voters_json(copy.newest_voters),
        "metadataVersion": release_of(contents.metadata_version) if contents else None,
        "startOffset": copy.start_offset,
        "endOffset": copy.end.end_offset,
        "epoch": copy.end.epoch,
        "lastTime": None if copy.last_timestamp is None else time_text(copy.last_timestamp),
        "snapshot": None if copy.snapshot is None else copy.snapshot.file_name,
        "quorumState": None
        if election is None
        else {
            "version": election.version,
            "epoch": election.epoch,
            "leaderId": election.leader_id,
            "votedId": election.voted_id,
        },
        "damage": [
            {"file": one.file, "position": one.position, "reason": one.reason}
            for one in copy.damage
        ],
        "notes": list(copy.notes),
    }


def voters_json(voters: VoterSet | None) -> list[dict[str, Any]] | None:
    """Return the voters with directory ids and endpoints; None for a static quorum."""
    if voters is None:
        return None
    return [
        {
            "id": one.id,
            "directoryId": str(one.directory_id),
            "endpoints": [f"{name}://{at}" for name, at in one.endpoints.items()],
        }
        for one in voters
    ]


def verdict_json(verdict: Judgement) -> dict[str, Any]:
    """Return the verdict as an object."""
    loss = verdict.loss
    return {
        "best": verdict.best.where if verdict.best else None,
        "reason": verdict.reason,
        "objections": list(verdict.objections),
        "loss": None
        if loss is None
        else {
            "excluded": loss.is_excluded,
            "fromOffset": loss.from_offset,
            "certainOffset": loss.certain_offset,
            "present": list(loss.present),
            "absent": list(loss.absent),
            "reason": loss.reason,
        },
        "epochSeen": verdict.epoch_seen,
        "newEpoch": verdict.new_epoch,
        "beside": [
            {
                "where": one.copy.where,
                "role": one.role,
                "batchesInCommon": one.comparison.batches,
                "partsAt": one.comparison.parts_at,
                "ownRecords": None if one.own_tail is None else list(one.own_tail),
                "advice": one.advice,
            }
            for one in verdict.beside
        ],
    }


def role_in(copy: Copy, copies: Sequence[Copy], verdict: Judgement) -> str:
    """Return the role of one of ``copies``, by the voters of the best one."""
    if verdict.best is None:
        return OTHER
    voters = verdict.best.newest_voters
    return role_of(copy, voters, static_voters(copies), verdict.best)
