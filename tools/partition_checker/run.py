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
from tools.broker_kills.reading import CLIENT_S, PARTITIONS
from tools.broker_kills.writers import TRANSACTION_S, Idempotent, Transactional, Writer
from tools.partition_checker.brokers import Brokers
from tools.partition_checker.faults import FAULTS
from tools.partition_checker.judge import replica_faults
from tools.partition_checker.readers import Reader, faults_of, read_to_end

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
    writers = _writers(running, pause_s)
    readers = [Reader(running.bootstrap, *one) for one in _ISOLATION.items()]
    for thread in (*writers, *readers):
        thread.start()
    harms = _harm(running, rounds, kinds, random.Random(seed))
    violations = _judge(running, writers, readers)
    counts = {name: value for writer in writers for name, value in writer.counts().items()}
    seen = sum(len(found) for reader in readers for found in reader.seen.values())
    found = {"seen": seen, "errors": running.errors(), "violations": violations}
    return {"faults": harms, **counts, **found}


def _writers(running: Brokers, pause_s: float) -> Sequence[Writer]:
    bootstrap, directory = running.bootstrap, partial(running.log_directory, "idempotent")
    return (
        Idempotent(bootstrap, "idempotent", pause_s, directory),
        Transactional(bootstrap, "transactional"),
        Copier(bootstrap, "copies", "transactional"),
    )


def _harm(
    running: Brokers, rounds: int, kinds: Sequence[str], choose: random.Random
) -> dict[str, int]:
    """Harm one broker at a time; return how often in which way."""
    harms: Counter[str] = Counter()
    weights = [FAULTS[kind][1] for kind in kinds]
    for number in range(1, rounds + 1):
        time.sleep(choose.uniform(*_PEACE_S))
        [kind] = choose.choices(kinds, weights)
        leader = running.leader_of(choose.choice(_TOPICS), choose.randrange(PARTITIONS))
        # A leader is harmed more often than its share.
        node = next(
            (one for one in running.nodes if one.node_id == leader), choose.choice(running.nodes)
        )
        print(f"round {number} of {rounds}: {kind} of node {node.node_id}", file=sys.stderr)
        FAULTS[kind][0](running, node, choose)
        harms[kind] += 1
        # One fault at a time: with two replicas away nothing can be acknowledged.
        running.wait_in_sync(_TOPICS)
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
        final = read_to_end(running.bootstrap, reader.topic, PARTITIONS, CLIENT_S)
        violations += faults_of(reader, final)
    for topic in _TOPICS:
        for partition in range(PARTITIONS):
            logs = {one.node_id: running.log_of(one, topic, partition) for one in running.nodes}
            logs = {node: log for node, log in logs.items() if log}
            violations += replica_faults(f"{topic}-{partition}", logs)
    return violations
