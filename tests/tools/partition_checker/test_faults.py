"""Faults are drawn from a seed; a cut leaves the ways open that it does not name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tools.kafka_files import Node
from tools.partition_checker.faults import FAULTS, choose, ways

_OWN = [Node(201, ("broker",), Path())]
_NODES = [Node(101, ("broker",), Path()), *_OWN]
_SEEDS = range(50)


def test_broker_is_cut_off_in_each_direction_and_never_from_itself() -> None:
    others = [201, 101, 102]
    assert ways(201, others) == [(101, 201), (102, 201), (201, 101), (201, 102)]
    assert ways(201, others, from_node=False) == [(101, 201), (102, 201)]
    assert ways(201, others, to_node=False) == [(201, 101), (201, 102)]


@pytest.mark.parametrize("kind", ["slow-disk", "full-disk", "clock"])
def test_disks_and_clocks_fail_at_brokers_of_kwire_alone(kind: str) -> None:
    drawn = {choose([kind], _NODES, _OWN, 101, random.Random(seed)).node.node_id for seed in _SEEDS}
    assert drawn == {201}


def test_faults_of_kwires_brokers_are_not_drawn_without_one() -> None:
    drawn = {choose(sorted(FAULTS), _NODES, [], 101, random.Random(seed)).kind for seed in _SEEDS}
    assert drawn and not any(FAULTS[kind].own for kind in drawn)


def test_leader_is_harmed_and_another_broker_when_it_cannot_be() -> None:
    for leader, expected in ((101, {101}), (201, {201}), (-1, {101, 201})):
        drawn = {
            choose(["kill"], _NODES, _OWN, leader, random.Random(seed)).node.node_id
            for seed in _SEEDS
        }
        assert drawn == expected


def test_same_seed_draws_the_same_faults() -> None:
    one, other = (
        [choose(sorted(FAULTS), _NODES, _OWN, 101, rng) for _ in _SEEDS]
        for rng in (random.Random(7), random.Random(7))
    )
    assert one == other
