"""Judges copies of one metadata log: which one to use, whether a committed record can be missing,
and the epoch of a rescue.

It reads no file and writes none. The order of copies is that of Raft's votes (Raft 5.4.1); why a
majority of the voters' copies excludes a loss is said at ``_loss``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.quorum.voter_set import VoterSet
from gateway.rescue.compare import Comparison, compare
from gateway.rescue.copies import Copy, Position

#: Elections that no copy at hand saw: Kafka's epochs rise by one an election.
EPOCH_MARGIN: Final = 1000
EPOCH_MAX: Final = (1 << 31) - 2
#: Roles of a copy, as they are printed.
VOTER, BROKER, GATEWAY, SNAPSHOT, OTHER = "voter", "broker", "gateway", "snapshot", "other"


@dataclass(frozen=True, slots=True)
class Loss:
    """Whether a committed record can be missing from the best copy, whose end is ``from_offset``.

    ``certain_offset``: every record below was committed. From there on the copy may have records
    that never were, and those that were committed in their place are missing.
    ``present`` and ``absent``: ids of the voters whose copies are at hand, or not.
    """

    is_excluded: bool
    from_offset: int
    present: tuple[int, ...]
    absent: tuple[int, ...]
    reason: str
    certain_offset: int = 0


@dataclass(frozen=True, slots=True)
class Beside:
    """A copy beside the best one: its role, where it parts from the best, and what its node has to
    do.
    """

    copy: Copy
    role: str
    comparison: Comparison
    own_tail: tuple[int, int] | None
    advice: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of all copies. ``best`` is None if no copy has a record; ``objections``: why
    the copies cannot be judged together.
    """

    best: Copy | None
    reason: str
    loss: Loss | None
    epoch_seen: int
    new_epoch: int | None
    beside: tuple[Beside, ...]
    objections: tuple[str, ...] = ()


def judge(copies: Sequence[Copy], chosen: Copy | None = None) -> Judgement:
    """Judge all copies at hand; ``chosen`` in place of the best one where a caller has chosen."""
    seen = max((one.epochs_seen for one in copies), default=-1)
    new = seen + EPOCH_MARGIN
    epoch = new if seen >= 0 and new <= EPOCH_MAX else None
    candidates = [one for one in copies if not one.is_empty]
    if not candidates:
        reason = "no copy has a record: there is nothing to rescue from"
        return Judgement(None, reason, None, seen, epoch, ())
    best = chosen or max(candidates, key=_rank)
    others = [one for one in copies if one is not best]
    beside = tuple(_beside(one, best) for one in others)
    return Judgement(
        best,
        _reason(best, others),
        replace(_loss(best, copies), certain_offset=_certain(best, copies)),
        seen,
        epoch,
        beside,
        tuple(_objections(copies, best)),
    )


def role_of(copy: Copy, voters: VoterSet | None, static: Sequence[int], best: Copy) -> str:
    """Return the role of a copy in the quorum of ``best``."""
    identity = copy.identity
    if copy.is_snapshot:
        return SNAPSHOT
    if identity.is_gateway:
        return GATEWAY
    if identity.node_id is None:
        return OTHER
    if voters is None:
        is_voter = identity.node_id in static
    else:
        is_voter = identity.directory_id is not None and voters.has(
            identity.node_id, identity.directory_id
        )
    if is_voter:
        return VOTER
    contents = copy.contents or best.contents
    return BROKER if contents and identity.node_id in contents.broker_ids else OTHER


def static_voters(copies: Sequence[Copy]) -> tuple[int, ...]:
    """Return the voters of a static quorum, which version 0 of ``quorum-state`` names (KIP-595):
    those of the file with the highest epoch.
    """
    named = [one.election for one in copies if one.election and one.election.voter_ids]
    newest = max(named, key=lambda one: one.epoch, default=None)
    return newest.voter_ids if newest else ()


def is_ahead(one: Position, other: Position) -> bool:
    """Whether the log that ends at ``one`` wins a vote against the log that ends at ``other``."""
    return one > other


def _rank(copy: Copy) -> tuple[Position, bool, bool, bool, str]:
    identity = copy.identity
    # Of equal logs one that is whole, that has an identity, and that is no gateway's.
    return (
        copy.end,
        copy.is_whole,
        identity.node_id is not None,
        not identity.is_gateway,
        copy.where,
    )


def _reason(best: Copy, others: Sequence[Copy]) -> str:
    epoch, end = best.end
    text = f"it ends at offset {end} in epoch {epoch}"
    ends = [one.end for one in others if not one.is_empty]
    if not ends:
        return f"{text}; there is no other copy with a record"
    ahead = max(ends)
    if ahead > best.end:
        return f"{text}, and another copy ends at {ahead.end_offset} in epoch {ahead.epoch}"
    if ahead == best.end:
        return f"{text}, as far as any copy reaches"
    if ahead.epoch < epoch and ahead.end_offset > end:
        return (
            f"{text}; the copy that ends at {ahead.end_offset} is of epoch {ahead.epoch}: a newer"
            " leader went on without its last records"
        )
    return f"{text}, later than every other copy ({ahead.end_offset} in epoch {ahead.epoch})"


# --- loss
# ---------------------------------------------------------------------------


def _loss(best: Copy, copies: Sequence[Copy]) -> Loss:
    """Judge by the voters of the best copy, and by any newer change of voters in another copy.

    A committed record is on a majority of the voters. A majority at hand has one of these in
    common, and the copy whose end wins all votes has what it has (Raft 5.4.3). Half of an even
    number of voters would do without changes of voters; but the other half may have removed one
    voter, and been a majority then.
    """
    end = best.end.end_offset
    sets = _voter_sets(best, copies)
    floor = max((one.high_watermark for one in copies), default=0)
    if floor > end:
        reason = (
            f"records up to offset {floor} were committed, as a gateway's high watermark says: they"
            " are lost"
        )
        return Loss(False, end, (), (), reason)
    if not sets:
        return Loss(False, end, (), (), "no copy names the voters")
    losses = [_by_voters(best, copies, one) for one in sets]
    return next((one for one in losses if not one.is_excluded), losses[0])


def _certain(best: Copy, copies: Sequence[Copy]) -> int:
    """Return the offset below which all records of ``best`` are committed: a snapshot ends at a
    committed record, and so does what a gateway serves. The tail of a log may never have been
    committed, also where it is long: its leader may have been cut off.
    """
    found = 0
    for one in copies:
        marks = [one.high_watermark, *(snapshot.end_offset for snapshot in one.snapshots)]
        # Behind its own end it has no record to compare: the history there may be another one.
        mark, parts = min(max(marks), one.end.end_offset), compare(one, best).parts_at
        found = max(found, mark if parts is None else min(mark, parts))
    return min(found, best.end.end_offset)


def _by_voters(best: Copy, copies: Sequence[Copy], voters: VoterSet | tuple[int, ...]) -> Loss:
    ids = tuple(node.id for node in voters) if isinstance(voters, VoterSet) else voters
    dynamic = voters if isinstance(voters, VoterSet) else None
    present: set[int] = set()
    damaged: set[int] = set()
    for copy in copies:
        if role_of(copy, dynamic, ids, best) == VOTER and copy.identity.node_id is not None:
            # An empty log under a voter's directory id has lost what was there, or never had it.
            (present if copy.is_whole and not copy.is_empty else damaged).add(copy.identity.node_id)
    absent = tuple(sorted(set(ids) - present))
    needed = _needed(len(ids))
    is_excluded = len(present) >= needed and not is_ahead(_furthest(copies), best.end)
    count = f"{len(present)} of {len(ids)} voters' copies are at hand"
    if damaged - present:
        count += f", not counting the damaged or empty one of {_and(sorted(damaged - present))}"
    if is_excluded:
        reason = (
            f"{count}, a majority, if none of these disks was ever restored from an older image"
        )
    elif len(present) >= needed:
        reason = f"{count}, but another copy reaches further than this one"
    else:
        are = "is" if needed == 1 else "are"
        reason = f"{count}, and {needed} {are} needed: {_and(absent)} may have had more"
    return Loss(is_excluded, best.end.end_offset, tuple(sorted(present)), absent, reason)


def _needed(voters: int) -> int:
    """The least number of voters' copies that excludes a loss: a majority."""
    return voters // 2 + 1


def _voter_sets(best: Copy, copies: Sequence[Copy]) -> list[VoterSet | tuple[int, ...]]:
    newest = best.newest_voters
    found: list[VoterSet | tuple[int, ...]] = []
    if newest is not None:
        found.append(newest)
    elif static := static_voters(copies):
        found.append(static)
    known = best.voters[-1][0] if best.voters else -2
    found += [
        voters
        for one in copies
        if (voters := one.newest_voters) is not None
        and voters not in found
        and one.voters[-1][0] > known
    ]
    return found


def _furthest(copies: Sequence[Copy]) -> Position:
    return max(one.end for one in copies)


# --- the copies beside it
# ---------------------------------------------------------------------------


def _beside(copy: Copy, best: Copy) -> Beside:
    voters = best.newest_voters
    role = role_of(copy, voters, static_voters([best, copy]), best)
    comparison = compare(copy, best)
    tail = _own_tail(copy, best, comparison)
    return Beside(copy, role, comparison, tail, _advice(role, copy, tail))


def _own_tail(copy: Copy, best: Copy, comparison: Comparison) -> tuple[int, int] | None:
    """Return (start, end) of the records that the copy has and the best one lacks."""
    end = copy.end.end_offset
    if comparison.parts_at is not None:
        return comparison.parts_at, end
    if end > best.end.end_offset:
        return best.end.end_offset, end
    return None


def _advice(role: str, copy: Copy, tail: tuple[int, int] | None) -> str:
    if copy.is_empty:
        return "nothing: it has no log"
    if role == SNAPSHOT:
        return "nothing: it is a file"
    if role == VOTER:
        return (
            "write it, too, as a voter with a --to; or keep it off until the rescued controller"
            " leads, then format it anew and add it"
        )
    return follower_advice(copy, tail)


def follower_advice(copy: Copy, tail: tuple[int, int] | None) -> str:
    """Return what a follower has to do whose copy has records (start, end) that the rescued log
    lacks; None: it has none.
    """
    if tail is None:
        return "nothing: it follows by itself, without a restart"
    if copy.identity.is_gateway and copy.high_watermark > tail[0]:
        return (
            f"it has served records {tail[0]} to {copy.high_watermark - 1} as committed, and ends"
            " when it finds them gone: start it again with a fresh data.dir, and keep this one"
        )
    return (
        f"it drops its records {tail[0]} to {tail[1] - 1} by itself; if its process ends at that,"
        " start it again, and leave its directory as it is"
    )


# --- copies that do not belong together
# ---------------------------------------------------------------------------


def _objections(copies: Sequence[Copy], best: Copy) -> list[str]:
    found = []
    clusters = _values(copies, lambda one: one.identity.cluster_id)
    if len(clusters) > 1:
        found.append(f"the copies are of different clusters: {_places(clusters)}")
    topics = _values(copies, lambda one: one.identity.topic_id)
    if len(topics) > 1:
        found.append(f"the copies are of different topics (partition.metadata): {_places(topics)}")
    for one in copies:
        # An older copy of the same log may lie before the upgrade of kraft.version.
        if (
            not one.is_empty
            and one.kraft_version != best.kraft_version
            and compare(one, best).parts_at is not None
        ):
            found.append(
                f"{one.where} has kraft.version {one.kraft_version} and another history than"
                f" {best.where}, which has {best.kraft_version}"
            )
    return found


def _values(copies: Sequence[Copy], of: Callable[[Copy], object]) -> dict[str, str]:
    """Return the values that are known, each with the first copy that has it."""
    found: dict[str, str] = {}
    for one in copies:
        value = of(one)
        if value is not None:
            found.setdefault(str(value), one.where)
    return found


def _places(values: dict[str, str]) -> str:
    return ", ".join(f"{value} in {where}" for value, where in values.items())


def _and(ids: Sequence[int]) -> str:
    names = [str(one) for one in ids]
    return f"voter {names[0]}" if len(names) == 1 else f"voters {', '.join(names)}"
