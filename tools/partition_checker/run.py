"""Harms the brokers of a cluster under load, and judges what is left."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tools.broker_kills.copier import Copier
from tools.broker_kills.reading import PARTITIONS, records
from tools.broker_kills.writers import TRANSACTION_S, Idempotent, Transactional, Writer
from tools.partition_checker.brokers import Brokers
from tools.partition_checker.faults import FAULTS, choose
from tools.partition_checker.fresh_reads import FreshReads
from tools.partition_checker.judge import replica_faults
from tools.partition_checker.readers import Reader, faults_of

_TOPICS: Final = ("idempotent", "transactional", "copies")
_ISOLATION: Final = {
    "idempotent": "read_uncommitted",
    "transactional": "read_committed",
    "copies": "read_committed",
}
#: Between a fault and the next one, s.
_PEACE_S: Final = (0.2, 3.0)
#: How long consumers get to read what is left, s.
_REST_S: Final = 3.0


def check(
    running: Brokers, rounds: int, kinds: Sequence[str], seed: int, pause_s: float
) -> dict[str, Any]:
    """Harm a cluster ``rounds`` times in one of the ways ``kinds``; ``pause_s`` is between two
    idempotent records. Return what was done, acknowledged and seen, what nodes of Kafka logged as
    ``errors``, and ``violations``.
    """
    running.create(_TOPICS, PARTITIONS)
    idempotent, *_ = writers = _writers(running, pause_s)
    readers = [Reader(running.bootstrap, *one) for one in _ISOLATION.items()]
    deposed = set[int]()
    fresh = FreshReads(running.bootstrap, idempotent, lambda: frozenset(deposed))
    for thread in (*writers, *readers, fresh):
        thread.start()
    harms = _harm(running, rounds, kinds, random.Random(seed), deposed)
    fresh.end()
    violations = fresh.failed + _judge(running, writers, readers)
    counts = {name: value for writer in writers for name, value in writer.counts().items()}
    seen = sum(len(found) for reader in readers for found in reader.seen.values())
    found = {"seen": seen, "fresh_reads": fresh.count}
    return {
        "faults": harms, **counts, **found, "errors": running.errors(), "violations": violations
    }  # fmt: skip


def _writers(running: Brokers, pause_s: float) -> tuple[Idempotent, Transactional, Copier]:
    bootstrap, directory = running.bootstrap, partial(running.log_directory, "idempotent")
    return (
        Idempotent(bootstrap, "idempotent", pause_s, directory),
        Transactional(bootstrap, "transactional"),
        Copier(bootstrap, "copies", "transactional"),
    )


def _harm(
    running: Brokers, rounds: int, kinds: Sequence[str], rng: random.Random, deposed: set[int]
) -> dict[str, int]:
    """Harm one broker at a time; return how often in which way. ``deposed`` has the broker that may
    not know that it is deposed.
    """
    harms: Counter[str] = Counter()
    for number in range(1, rounds + 1):
        time.sleep(rng.uniform(*_PEACE_S))
        leader = running.leader_of(rng.choice(_TOPICS), rng.randrange(PARTITIONS))
        kind, node = choose(kinds, running.nodes, running.own_nodes, leader, rng)
        print(f"round {number} of {rounds}: {kind} of node {node.node_id}", file=sys.stderr)
        if FAULTS[kind].deposes:
            deposed.add(node.node_id)
        FAULTS[kind].harm(running, node, rng)
        harms[kind] += 1
        # One fault at a time: with two replicas away nothing can be acknowledged.
        running.wait_in_sync(_TOPICS)
        deposed.clear()
    return dict(harms)


def _judge(running: Brokers, writers: Sequence[Writer], readers: Sequence[Reader]) -> list[str]:
    *others, copier = writers
    for writer in others:
        writer.end()
    time.sleep(TRANSACTION_S + 2)
    copier.end()
    time.sleep(_REST_S)
    running.wait_in_sync(_TOPICS)
    violations = [fault for writer in writers for fault in writer.violations()]
    for reader in readers:
        reader.end()
        violations += faults_of(reader, records(running.bootstrap, reader.topic))
    for topic in _TOPICS:
        for partition in range(PARTITIONS):
            logs = running.logs_of(topic, partition)
            violations += replica_faults(f"{topic}-{partition}", logs)
    return violations
