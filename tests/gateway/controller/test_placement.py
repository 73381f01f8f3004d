"""Placement: no node twice, racks and nodes evenly used, the first replica always unfenced."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.controller.errors import ApiError
from gateway.controller.placement import UsableNode, place
from kwire.protocol import ErrorCode

NODES = st.lists(
    st.tuples(st.sampled_from((None, "a", "b", "c")), st.booleans()), min_size=1, max_size=9
).map(
    lambda found: [
        UsableNode(node_id, rack, fenced) for node_id, (rack, fenced) in enumerate(found)
    ]
)


@given(NODES, st.integers(0, 40), st.integers(1, 9), st.integers(0, 1000))
def test_every_partition_has_its_replicas_and_an_unfenced_leader(
    nodes: list[UsableNode], partitions: int, replicas: int, seed: int
) -> None:
    up = {node.node_id for node in nodes if not node.fenced}
    rand = random.Random(seed).randrange
    if not up or replicas > len(nodes):
        with pytest.raises(ApiError) as refusal:
            list(place(nodes, partitions, replicas, rand))
        assert refusal.value.error is ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = list(place(nodes, partitions, replicas, rand))
    assert len(placed) == partitions
    for chosen in placed:
        assert len(chosen) == len(set(chosen)) == replicas
        assert chosen[0] in up


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
def test_without_racks_leaders_are_spread_evenly(nodes: int, rounds: int, seed: int) -> None:
    placed = place(
        [UsableNode(one) for one in range(nodes)],
        nodes * rounds,
        min(2, nodes),
        random.Random(seed).randrange,
    )
    assert Counter(chosen[0] for chosen in placed) == dict.fromkeys(range(nodes), rounds)


@given(st.integers(0, 1000))
def test_with_racks_each_partition_is_in_all_of_them(seed: int) -> None:
    nodes = [UsableNode(one, "abc"[one % 3]) for one in range(9)]
    for chosen in place(nodes, 20, 3, random.Random(seed).randrange):
        assert {"abc"[one % 3] for one in chosen} == {"a", "b", "c"}


def test_stripes_are_those_of_kafkas_javadoc() -> None:
    nodes = [UsableNode(rack * 10 + one, "ABC"[rack]) for rack in range(3) for one in range(3)]
    assert list(place(nodes, 3, 3, lambda below: 0)) == [[0, 10, 20], [11, 21, 1], [22, 2, 12]]


def test_fenced_nodes_come_last() -> None:
    nodes = [UsableNode(0, fenced=True), UsableNode(1), UsableNode(2)]
    for chosen in place(nodes, 10, 2, random.Random(5).randrange):
        assert 0 not in chosen
    assert all(chosen[2] == 0 for chosen in place(nodes, 10, 3, random.Random(5).randrange))
