"""Checks the rules that the log of a quorum must keep, whatever happened to its nodes. It does no
I/O, and takes linear time except for sorting.

The log is a queue ordered by offset, so it needs no search for a linearization: an append that was
answered before another was sent must come before it, and one pass checks this for all pairs.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tools.consistency_checker.history import Attempt, History, LogRead, Outcome, SeenBatch

#: The most violations of one kind that are reported.
_TOLD_MAX = 10


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule by its name in RULES, and the evidence."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Minimum:
    """The least that a run must contain to be valid."""

    acknowledged: int = 1
    epochs: int = 1
    leader_answers: int = 0


@dataclass(slots=True)
class _Facts:
    """The history, and the one log that contains all its reads."""

    history: History
    minimum: Minimum
    #: By base offset; where reads disagree, the first one seen.
    log: list[SeenBatch] = field(default_factory=list)
    #: Offsets at which each id stands in that log.
    places: dict[int, list[int]] = field(default_factory=dict)
    #: Epoch of the batch in which each id stands first.
    epochs: dict[int, int] = field(default_factory=dict)


def check(history: History, minimum: Minimum = Minimum()) -> list[Violation]:
    """Return every broken rule, at most ten times each; empty if nothing was lost, reordered,
    invented or stale.
    """
    facts = _Facts(history, minimum)
    whole = {batch.base_offset: batch for read in reversed(history.reads) for batch in read.batches}
    facts.log = [whole[offset] for offset in sorted(whole)]
    for batch in facts.log:
        for offset, id in batch.ids:
            facts.places.setdefault(id, []).append(offset)
            facts.epochs.setdefault(id, batch.epoch)
    found = []
    for name, rule in RULES.items():
        for number, text in enumerate(rule(facts)):
            if number == _TOLD_MAX:
                break
            found.append(Violation(name, text))
    return found


def _one_value(facts: _Facts) -> Iterator[str]:
    """All reads of all nodes have the same batch at an offset."""
    whole = {batch.base_offset: batch for batch in facts.log}
    for read in facts.history.reads:
        for batch in read.batches:
            if whole[batch.base_offset] != batch:
                yield (
                    f"node {read.node} gave {_name(batch)}, and another read gave"
                    f" {_name(whole[batch.base_offset])}"
                )
    for one, other in _neighbours(facts.log):
        if other.base_offset <= one.last_offset:
            yield f"{_name(one)} and {_name(other)} overlap"


def _no_gap(facts: _Facts) -> Iterator[str]:
    """Within one reading every batch begins where the one before ends."""
    for read in facts.history.reads:
        for one, other in _neighbours(read.batches):
            if other.base_offset != one.last_offset + 1:
                yield f"node {read.node} gave {_name(other)} after {_name(one)}"


def _same_on_all_nodes(facts: _Facts) -> Iterator[str]:
    """After healing every node has the whole log: the same first offset and the same end, and the
    batches of the others.
    """
    finals = {read.node: read for read in facts.history.reads if read.final}
    for node in facts.history.nodes:
        read = finals.get(node)
        if read is None or not read.batches:
            yield f"node {node}: its log was not read after healing"
        elif read.batches[0].base_offset != 0:
            yield (
                f"node {node}: its log begins at {read.batches[0].base_offset}: what was before"
                " cannot be checked"
            )
        elif read.batches[-1].last_offset != facts.log[-1].last_offset:
            yield (
                f"node {node}: its log ends at {read.batches[-1].last_offset}, another's at"
                f" {facts.log[-1].last_offset}"
            )


def _acknowledged_is_there(facts: _Facts) -> Iterator[str]:
    """Every acknowledged append is in the log that every node has in the end."""
    finals = [
        (read.node, {id for batch in read.batches for _, id in batch.ids})
        for read in _finals(facts)
    ]
    for attempt in _with(facts, Outcome.ACKNOWLEDGED):
        for node, ids in finals:
            if attempt.id not in ids:
                yield (
                    f"append {attempt.id}, acknowledged by node {attempt.node}, is not in the log"
                    f" of node {node}"
                )


def _failed_is_not(facts: _Facts) -> Iterator[str]:
    """No append that was definitely refused is in a log."""
    for attempt in _with(facts, Outcome.FAILED):
        if attempt.id in facts.places:
            where = facts.places[attempt.id][0]
            yield (
                f"append {attempt.id}, refused by node {attempt.node} ({attempt.detail}), stands at"
                f" offset {where}"
            )


def _at_most_once(facts: _Facts) -> Iterator[str]:
    """No append is in the log twice, acknowledged or not."""
    for id, places in facts.places.items():
        if len(places) > 1:
            yield f"append {id} stands at the offsets {places}"


def _nothing_invented(facts: _Facts) -> Iterator[str]:
    """Every append in the log was sent by a writer."""
    sent = {attempt.id for attempt in facts.history.attempts}
    for id, places in facts.places.items():
        if id not in sent:
            yield f"append {id} at offset {places[0]} was never sent"


def _real_time_order(facts: _Facts) -> Iterator[str]:
    """An append that was answered before another was sent has the smaller offset."""
    placed = [
        (facts.places[one.id][0], one) for one in facts.history.attempts if one.id in facts.places
    ]
    earliest = math.inf  # answer among those at larger offsets
    by: Attempt | None = None
    for offset, attempt in sorted(placed, key=lambda pair: pair[0], reverse=True):
        if by is not None and earliest < attempt.sent:
            pending = facts.places[by.id][0]
            yield (
                f"append {by.id} at offset {pending} was acknowledged before {attempt.id} at offset"
                f" {offset} was sent"
            )
        if (
            attempt.outcome is Outcome.ACKNOWLEDGED
            and attempt.answered is not None
            and attempt.answered < earliest
        ):
            earliest, by = attempt.answered, attempt


def _one_leader_an_epoch(facts: _Facts) -> Iterator[str]:
    """An epoch has one leader, ever, according to records, responses and files alike."""
    known: dict[int, tuple[int, str]] = {}
    said = [
        (b.epoch, b.leader, f"the record at {b.base_offset}")
        for b in facts.log
        if b.leader is not None
    ]
    said += [(one.epoch, one.leader, one.said_by) for one in facts.history.leaders]
    for epoch, leader, by in said:
        if leader < 0:
            continue
        other, first = known.setdefault(epoch, (leader, by))
        if other != leader:
            yield f"epoch {epoch} has the leaders {other} ({first}) and {leader} ({by})"


def _epochs_rise(facts: _Facts) -> Iterator[str]:
    """Epochs never fall along the log, and each begins with its LEADER_CHANGE."""
    before = 0
    for batch in facts.log:
        if batch.epoch < before:
            yield f"{_name(batch)} stands behind epoch {before}"
        elif batch.epoch > before and batch.leader is None:
            yield f"{_name(batch)} is the first of its epoch, and holds no LEADER_CHANGE"
        before = batch.epoch


def _no_stale_answer(facts: _Facts) -> Iterator[str]:
    """A node that answers as the leader knows, by epoch and offset, every append acknowledged
    before the request.
    """
    done = sorted(
        (one.answered, facts.epochs[one.id], facts.places[one.id][0])
        for one in _with(facts, Outcome.ACKNOWLEDGED)
        if one.answered is not None and one.id in facts.places
    )
    moments = [moment for moment, _, _ in done]
    epochs, ends = (
        _running_max(epoch for _, epoch, _ in done),
        _running_max(offset + 1 for _, _, offset in done),
    )
    for one in facts.history.leaders:
        if one.asked is None:
            continue
        before = bisect.bisect_left(moments, one.asked) - 1
        if before < 0:
            continue
        if one.epoch < epochs[before]:
            yield (
                f"{one.said_by} answered as the leader of epoch {one.epoch}, and epoch"
                f" {epochs[before]} had acknowledged"
            )
        elif one.high_watermark is not None and one.high_watermark < ends[before]:
            yield (
                f"{one.said_by} told the high watermark {one.high_watermark}, and"
                f" {ends[before] - 1} was acknowledged"
            )


def _enough_happened(facts: _Facts) -> Iterator[str]:
    """The run has at least the :class:`Minimum`."""
    answers = sum(one.asked is not None for one in facts.history.leaders)
    for what, seen, wanted in (
        (
            "acknowledged appends",
            sum(1 for _ in _with(facts, Outcome.ACKNOWLEDGED)),
            facts.minimum.acknowledged,
        ),
        ("epochs in the log", len({batch.epoch for batch in facts.log}), facts.minimum.epochs),
        ("answers of leaders", answers, facts.minimum.leader_answers),
    ):
        if seen < wanted:
            yield f"{seen} {what}, at least {wanted} are asked for"


RULES: dict[str, Callable[[_Facts], Iterable[str]]] = {
    "one value at an offset": _one_value,
    "no gap in a reading": _no_gap,
    "the same log on all nodes": _same_on_all_nodes,
    "acknowledged is there": _acknowledged_is_there,
    "refused is not there": _failed_is_not,
    "at most once": _at_most_once,
    "nothing invented": _nothing_invented,
    "real-time order": _real_time_order,
    "one leader an epoch": _one_leader_an_epoch,
    "epochs rise": _epochs_rise,
    "no stale answer": _no_stale_answer,
    "enough happened": _enough_happened,
}


def _finals(facts: _Facts) -> Iterator[LogRead]:
    return (read for read in facts.history.reads if read.final)


def _with(facts: _Facts, outcome: Outcome) -> Iterator[Attempt]:
    return (attempt for attempt in facts.history.attempts if attempt.outcome is outcome)


def _neighbours(batches: Iterable[SeenBatch]) -> Iterator[tuple[SeenBatch, SeenBatch]]:
    before = None
    for batch in batches:
        if before is not None:
            yield before, batch
        before = batch


def _running_max(values: Iterable[int]) -> list[int]:
    most, found = -1, []
    for value in values:
        most = max(most, value)
        found.append(most)
    return found


def _name(batch: SeenBatch) -> str:
    return (
        f"batch {batch.base_offset}-{batch.last_offset} of epoch {batch.epoch} (digest"
        f" {batch.digest:08x})"
    )
