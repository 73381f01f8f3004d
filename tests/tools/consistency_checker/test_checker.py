"""The checker of histories: a right one passes, and every rule is broken by a history with the
fault that it is for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.consistency_checker.checker import RULES, Minimum, check
from tools.consistency_checker.history import (
    Attempt,
    History,
    Leadership,
    LogRead,
    Outcome,
    SeenBatch,
)

_NODES = (1, 2, 3)


def leader_change(offset: int, epoch: int, leader: int) -> SeenBatch:
    return SeenBatch(offset, offset, epoch, digest=1000 + offset, leader=leader)


def data(offset: int, epoch: int, *ids: int) -> SeenBatch:
    placed = tuple((offset + number, id) for number, id in enumerate(ids))
    return SeenBatch(offset, offset + max(len(ids), 1) - 1, epoch, digest=2000 + offset, ids=placed)


def acknowledged(id: int, sent: float) -> Attempt:
    return Attempt(id, sent, Outcome.ACKNOWLEDGED, sent + 0.5, node=1)


#: Node 1 leads epoch 1 and appends 11 and 12; node 2 leads epoch 2 and appends 13, which it
#: acknowledges, and 14, which it does not.
_LOG = (
    leader_change(0, 1, leader=1),
    data(1, 1, 11, 12),
    leader_change(3, 2, leader=2),
    data(4, 2, 13),
    data(5, 2, 14),
)


def right() -> History:
    """A history without a fault, in which everything happens that a rule looks at."""
    return History(
        nodes=_NODES,
        attempts=[
            acknowledged(11, sent=1.0),
            acknowledged(12, sent=1.1),
            acknowledged(13, sent=5.0),
            Attempt(14, 6.0, node=2),
            Attempt(15, 6.5, Outcome.FAILED, 6.6, node=3, detail="error 41"),
            Attempt(16, 7.0, node=2),
        ],
        reads=[LogRead(3, _LOG[:3]), *(LogRead(node, _LOG, final=True) for node in _NODES)],
        leaders=[
            Leadership("node 1", 1, 1, asked=2.0, high_watermark=3),
            Leadership(
                "node 1", 1, 1, asked=5.4, high_watermark=3
            ),  # before 13 was acknowledged: it may not know
            Leadership("node 2", 2, 2, asked=5.6, high_watermark=5),
            Leadership(
                "node 2", 2, 2, asked=5.7
            ),  # it has just been elected, and tells no high watermark
            Leadership("quorum-state of node 3", 2, 2),
            Leadership("quorum-state of node 3", 3, -1),
        ],
    )


def with_log(history: History, log: Sequence[SeenBatch], nodes: Sequence[int] = _NODES) -> None:
    """These nodes have another log in the end."""
    history.reads = [
        dataclasses.replace(read, batches=log) if read.final and read.node in nodes else read
        for read in history.reads
    ]


def fault(history: History, rule: str) -> None:
    _FAULTS[rule](history)


def other_value(history: History) -> None:
    with_log(history, [*_LOG[:4], dataclasses.replace(_LOG[4], digest=1)], nodes=[2])


def other_borders(history: History) -> None:
    history.reads.append(LogRead(2, [dataclasses.replace(_LOG[1], base_offset=2)]))


def gap(history: History) -> None:
    history.reads.append(LogRead(1, [_LOG[1], _LOG[3]]))


def short(history: History) -> None:
    with_log(history, _LOG[:4], nodes=[3])


def unread(history: History) -> None:
    history.reads = [read for read in history.reads if read.node != 3]


def begins_late(history: History) -> None:
    with_log(history, _LOG[1:], nodes=[1])


def lost(history: History) -> None:
    history.attempts.append(acknowledged(17, sent=8.0))


def lost_on_one(history: History) -> None:
    with_log(history, [*_LOG[:3], dataclasses.replace(_LOG[3], ids=()), _LOG[4]], nodes=[2])


def refused_and_there(history: History) -> None:
    history.attempts[3] = Attempt(14, 6.0, Outcome.FAILED, 6.1, node=3, detail="error 41")


def twice(history: History) -> None:
    with_log(history, [*_LOG, data(6, 2, 14)])


def invented(history: History) -> None:
    with_log(history, [*_LOG, data(6, 2, 99)])


def reordered(history: History) -> None:
    history.attempts[0] = acknowledged(11, sent=2.0)
    history.attempts[1] = acknowledged(12, sent=1.0)


def unknown_before_acknowledged(history: History) -> None:
    with_log(history, [*_LOG[:3], data(4, 2, 14), data(5, 2, 13)])


def two_leaders_in_the_log(history: History) -> None:
    with_log(history, [*_LOG[:3], leader_change(4, 2, leader=3)])


def two_leaders_said(history: History) -> None:
    history.leaders.append(Leadership("quorum-state of node 1", 1, 3))


def epoch_falls(history: History) -> None:
    with_log(history, [*_LOG, data(6, 1, 16)])


def epoch_without_leader_change(history: History) -> None:
    with_log(history, [*_LOG, data(6, 3, 16)])


def old_leader_answers(history: History) -> None:
    history.leaders.append(Leadership("node 1", 1, 1, asked=5.6, high_watermark=3))


def old_leader_tells_no_offset(history: History) -> None:
    history.leaders.append(Leadership("node 1", 1, 1, asked=5.6))


def old_offset(history: History) -> None:
    history.leaders.append(Leadership("node 2", 2, 2, asked=5.6, high_watermark=4))


def nothing_happened(history: History) -> None:
    history.attempts = history.attempts[1:]


_FAULTS: dict[str, Callable[[History], None]] = {
    "one value at an offset": other_value,
    "one value at an offset, other borders": other_borders,
    "no gap in a reading": gap,
    "the same log on all nodes, one is behind": short,
    "the same log on all nodes, one is not read": unread,
    "the same log on all nodes, one begins late": begins_late,
    "acknowledged is there": lost,
    "acknowledged is there, but not on all": lost_on_one,
    "refused is not there": refused_and_there,
    "at most once": twice,
    "nothing invented": invented,
    "real-time order": reordered,
    "real-time order, of an unknown one too": unknown_before_acknowledged,
    "one leader an epoch": two_leaders_in_the_log,
    "one leader an epoch, by a file": two_leaders_said,
    "epochs rise": epoch_falls,
    "epochs rise, with a leader each": epoch_without_leader_change,
    "no stale answer": old_leader_answers,
    "no stale answer, by epoch alone": old_leader_tells_no_offset,
    "no stale answer, by offset": old_offset,
    "enough happened": nothing_happened,
}
_MINIMUM = Minimum(acknowledged=3, epochs=2, leader_answers=3)


def test_a_right_history_passes() -> None:
    assert check(right(), _MINIMUM) == []


@pytest.mark.parametrize("name", _FAULTS)
def test_each_fault_is_found_by_its_rule(name: str) -> None:
    history = right()
    fault(history, name)
    assert name.partition(",")[0] in {violation.rule for violation in check(history, _MINIMUM)}


def test_every_rule_has_a_fault() -> None:
    assert {name.partition(",")[0] for name in _FAULTS} == RULES.keys()


def test_rule_broken_everywhere_is_reported_a_few_times() -> None:
    history = right()
    history.attempts += [acknowledged(id, sent=8.0) for id in range(100, 200)]
    told = [violation for violation in check(history) if violation.rule == "acknowledged is there"]
    assert len(told) == 10


def test_an_empty_history_is_not_a_proof() -> None:
    assert {violation.rule for violation in check(History(nodes=_NODES))} == {
        "the same log on all nodes",
        "enough happened",
    }


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_pass_over_the_order_agrees_with_looking_at_all_pairs(draw: st.DataObject) -> None:
    """Answers and sendings at small random times: the rule fires exactly when some pair contradicts
    the offsets.
    """
    count = draw.draw(st.integers(2, 7))
    times = [
        sorted(draw.draw(st.tuples(st.integers(0, 20), st.integers(0, 20)))) for _ in range(count)
    ]
    known = [draw.draw(st.booleans()) for _ in range(count)]
    attempts = [
        Attempt(id, float(sent), Outcome.ACKNOWLEDGED, float(answered))
        if known[id]
        else Attempt(id, float(sent))
        for id, (sent, answered) in enumerate(times)
    ]
    log = [leader_change(0, 1, leader=1), *(data(1 + id, 1, id) for id in range(count))]
    contradicted = any(
        known[pending] and times[pending][1] < times[earlier][0]
        for earlier in range(count)
        for pending in range(earlier + 1, count)
    )
    history = History(nodes=[1], attempts=attempts, reads=[LogRead(1, log, final=True)])
    assert ("real-time order" in {violation.rule for violation in check(history)}) == contradicted
