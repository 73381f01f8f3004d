"""Wherever the judgement excludes a loss, no committed record is missing: random histories of a
plain model of Raft with changes of voters (KIP-853), of which random disks are left.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

import pytest

from gateway.rescue import verdict
from gateway.rescue.copies import Copy
from gateway.rescue.verdict import judge
from tests.gateway.rescue.copies import a_copy, voters

SEEDS: Final = 2000
NODES: Final = range(1, 8)
STEPS: Final = 120


class Entry(NamedTuple):
    """A record: its epoch, a number that no other record has, and the voters if it changes them."""

    epoch: int
    number: int
    voters: frozenset[int] | None = None


class History:
    """Nodes with logs and epochs, the leaders that believe to be one, and what was committed."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        first = frozenset(list(NODES)[: chance.randrange(1, 6)])
        self.logs: dict[int, list[Entry]] = {one: [] for one in NODES}
        self.epochs = dict.fromkeys(NODES, 0)
        self.leaders: dict[int, int] = {}
        self.committed: list[Entry] = []
        self.numbers = 0
        for one in first:
            self.logs[one] = [Entry(0, 0, first)]
        self.committed = [Entry(0, 0, first)]

    def voters_of(self, log: list[Entry]) -> tuple[int, frozenset[int]]:
        """The offset and the voters of the newest change in a log."""
        return next(
            ((at, one.voters) for at, one in reversed([*enumerate(log)]) if one.voters is not None),
            (-1, frozenset()),
        )

    def step(self) -> None:
        act = self.chance.choice(
            (self.elect, self.append, self.replicate, self.replicate, self.replicate, self.commit)
        )
        act()

    def elect(self) -> None:
        candidate = self.chance.choice(NODES)
        log = self.logs[candidate]
        members = self.voters_of(log)[1]
        # Elections are rare, so that leaders get something done.
        if candidate not in members or self.chance.random() < 0.7:
            return
        epoch = self.epochs[candidate] + self.chance.randrange(1, 3)
        reached = {one for one in members if self.chance.random() < 0.7} | {candidate}
        granted = {
            one
            for one in reached
            if self.epochs[one] < epoch and self.place(self.logs[one]) <= self.place(log)
        }
        if 2 * len(granted) > len(members):
            self.epochs.update(dict.fromkeys(granted, epoch))
            self.leaders[candidate] = epoch
            self.add(candidate, None)

    def append(self) -> None:
        leader = self.leader()
        if leader is None:
            return
        log, epoch = self.logs[leader], self.epochs[leader]
        at, members = self.voters_of(log)
        done = self.committed[: len(log)] == log[: len(self.committed)]
        may_change = done and at < len(self.committed) and self.committed[-1].epoch == epoch
        if not may_change or self.chance.random() < 0.5:
            self.add(leader, None)
            return
        one = self.chance.choice(NODES)
        changed = members - {one} if one in members else members | {one}
        if changed:
            self.add(leader, changed)

    def replicate(self) -> None:
        leader, follower = self.leader(), self.chance.choice(NODES)
        if leader is None or follower == leader or self.epochs[follower] > self.epochs[leader]:
            return
        self.epochs[follower] = self.epochs[leader]
        source, log = self.logs[leader], self.logs[follower]
        same = next(
            (at for at, (one, other) in enumerate(zip(source, log, strict=False)) if one != other),
            min(len(source), len(log)),
        )
        self.logs[follower] = [*source[: same + self.chance.randrange(1, 4)]]

    def commit(self) -> None:
        leader = self.leader()
        if leader is None:
            return
        log, epoch = self.logs[leader], self.epochs[leader]
        members = self.voters_of(log)[1]
        for end in range(len(log), len(self.committed), -1):
            have = [
                one
                for one in members
                if self.epochs[one] == epoch and self.logs[one][:end] == log[:end]
            ]
            if log[end - 1].epoch == epoch and 2 * len(have) > len(members):
                assert log[: len(self.committed)] == self.committed, "the model is Raft"
                self.committed = log[:end]
                return

    def leader(self) -> int | None:
        """A node that believes to lead; it may have been deposed without knowing."""
        known = [one for one, epoch in self.leaders.items() if self.epochs[one] == epoch]
        return self.chance.choice(known) if known else None

    def add(self, leader: int, changed: frozenset[int] | None) -> None:
        self.numbers += 1
        self.logs[leader].append(Entry(self.epochs[leader], self.numbers, changed))

    def place(self, log: list[Entry]) -> tuple[int, int]:
        return (log[-1].epoch if log else -1, len(log))

    def copy_of(self, node: int) -> Copy:
        log = self.logs[node]
        if not log:
            return a_copy(node, 0, -1)
        at, members = self.voters_of(log)
        batches = tuple((offset, one.epoch, one.number) for offset, one in enumerate(log))
        return a_copy(
            node,
            len(log),
            log[-1].epoch,
            of=voters(*members),
            voters_at=at,
            batches=batches,
            brokers=(),
        )


def excluded_and_lost(seed: int) -> tuple[bool, bool]:
    """Whether the judgement of the disks that are left excludes a loss, and whether there is
    one.
    """
    chance = random.Random(seed)
    history = History(chance)
    for _ in range(STEPS):
        history.step()
    left = [one for one in NODES if chance.random() < 0.6]
    found = judge([history.copy_of(one) for one in left])
    if found.best is None or found.loss is None:
        return False, True
    node = found.best.identity.node_id
    assert node is not None
    log, committed = history.logs[node], history.committed
    return found.loss.is_excluded, log[: len(committed)] != committed


def test_nothing_is_lost_wherever_a_loss_is_excluded() -> None:
    found = [excluded_and_lost(seed) for seed in range(SEEDS)]
    assert found.count((True, True)) == 0
    # Each other outcome is there, so the model tells something.
    assert found.count((True, False)) > SEEDS // 20
    assert found.count((False, True)) > SEEDS // 20


def test_half_of_the_voters_would_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of an even number: the other half may have removed a voter, and gone on without it."""
    monkeypatch.setattr(verdict, "_needed", lambda voters: (voters + 1) // 2)
    assert any(excluded_and_lost(seed) == (True, True) for seed in range(SEEDS))


def test_the_longest_log_would_be_the_wrong_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offset before the epoch chooses a log that a newer leader went on without."""

    def by_offset(copy: Copy) -> tuple[int, int]:
        return copy.end.end_offset, copy.end.epoch

    monkeypatch.setattr(verdict, "_rank", by_offset)
    monkeypatch.setattr(verdict, "is_ahead", lambda one, other: False)
    assert any(excluded_and_lost(seed) == (True, True) for seed in range(SEEDS))
