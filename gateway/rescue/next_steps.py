"""Says what the operator has to do after a rescue was written, in order. It reads no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.quorum.voter_set import VoterNode
from gateway.rescue.copies import Copy
from gateway.rescue.plan import Plan
from gateway.rescue.refusals import Target
from gateway.rescue.verdict import BROKER, GATEWAY, OTHER, VOTER, Judgement, follower_advice


def next_steps(
    plan: Plan, source: Copy, targets: Sequence[Target], verdict: Judgement
) -> list[str]:
    """Return the steps, one sentence or command line each."""
    return [
        *_start(plan, targets),
        *_check(plan),
        *_brokers(plan, source, targets, verdict),
        *_old_disks(targets, verdict),
        *_more_voters(plan, source, targets),
        *_ghosts(plan, source),
    ]


def _start(plan: Plan, targets: Sequence[Target]) -> Iterator[str]:
    if plan.is_static:
        line = ",".join(f"{one.id}@{_at(one)}" for one in plan.voters)
        yield f"set controller.quorum.voters={line} in the file of each new controller"
    else:
        line = ",".join(_at(one) for one in plan.voters)
        yield (
            "controller.quorum.bootstrap.servers of every controller and broker has to name one of"
            f" {line}"
        )
    for one in targets:
        owner = ", which has to belong to the user that it runs as" if one.is_new else ""
        yield f"start controller {one.voter_id} on {one.where}{owner}"


def _check(plan: Plan) -> Iterator[str]:
    at = _at(next(iter(plan.voters)))
    ids = ", ".join(str(one.id) for one in plan.voters)
    yield (
        f"wait until kafka-metadata-quorum --bootstrap-controller {at} describe --status names a"
        f" LeaderId, an epoch above {plan.epoch}, and as voters {ids} alone"
    )


def _brokers(
    plan: Plan, source: Copy, targets: Sequence[Target], verdict: Judgement
) -> Iterator[str]:
    written = {one.where for one in targets}
    seen = set()
    for one in verdict.beside:
        if one.role in (BROKER, GATEWAY, OTHER) and one.copy.where not in written:
            advice = _if_cut(plan, source, one.copy) or one.advice
            yield f"{one.role} at {one.copy.where}: {advice}"
            seen.add(one.copy.identity.node_id)
    brokers = source.contents.broker_ids if source.contents else ()
    if source.identity.node_id in brokers and (own := _if_cut(plan, source, source)):
        yield f"{BROKER} at {source.where}: {own}"
    seen.add(source.identity.node_id)
    if left := [str(one) for one in brokers if one not in seen]:
        yield (
            f"{_named('broker', left)}, not given as a copy: nothing, unless one ends with"
            " 'Unexpected error in raft IO thread' in its log; then start it again"
        )


def _if_cut(plan: Plan, source: Copy, copy: Copy) -> str | None:
    """Return what the node of a copy has to do where records are cut that both have."""
    end, is_cut = copy.end.end_offset, plan.end_offset < source.end.end_offset
    if not is_cut or end <= plan.end_offset:
        return None
    return follower_advice(copy, (plan.end_offset, end))


def _old_disks(targets: Sequence[Target], verdict: Judgement) -> Iterator[str]:
    written = {one.where for one in targets}
    places = [
        one.copy.where
        for one in verdict.beside
        if one.role == VOTER and one.copy.where not in written
    ]
    if places:
        yield (
            "keep these disks of old voters off until the new controller leads:"
            f" {', '.join(places)}"
        )


def _more_voters(plan: Plan, source: Copy, targets: Sequence[Target]) -> Iterator[str]:
    lost = [str(one) for one in _voters_before(source) if one not in plan.voters]
    if not lost:
        return
    at = _at(next(iter(plan.voters)))
    if plan.is_static:
        yield (
            "to go back to more controllers, on Kafka 4.1 or newer: kafka-features"
            f" --bootstrap-controller {at} upgrade --feature kraft.version=1, and in each FILE"
            " controller.quorum.bootstrap.servers in place of controller.quorum.voters; on older"
            " releases write all controllers now, each with a --to and a --voter"
        )
    # A snapshot file does not say whose it is.
    known = [source.identity, *(one.copy.identity for one in targets)]
    cluster = next((one.cluster_id for one in known if one.cluster_id), "CLUSTER_ID")
    one_by_one = ", one after the other" if len(lost) > 1 else ""
    yield (
        f"bring back {_named('controller', lost)}{one_by_one}: kafka-storage format"
        f" -t {cluster} -c FILE --no-initial-controllers on an empty disk, start it, then"
        f" kafka-metadata-quorum --bootstrap-controller {at} --command-config FILE add-controller"
    )


def _named(what: str, ids: Sequence[str]) -> str:
    return f"{what}{'s' if len(ids) > 1 else ''} {', '.join(ids)}"


def _voters_before(source: Copy) -> Sequence[int]:
    if source.newest_voters is not None:
        return [one.id for one in source.newest_voters]
    return source.election.voter_ids if source.election else ()


def _ghosts(plan: Plan, source: Copy) -> Iterator[str]:
    registered = source.contents.controller_ids if source.contents else ()
    ghosts = [str(one) for one in registered if one not in plan.voters]
    if ghosts and not plan.drops_controllers:
        yield (
            f"still registered: {_named('controller', ghosts)}; one that does not come back may"
            " block an upgrade of a feature, and --snapshot --drop-controllers leaves it out"
        )


def _at(voter: VoterNode) -> str:
    return str(next(iter(voter.endpoints.values())))
