"""Harms the brokers of a cluster again and again under load, and judges what is left: ``python -m
tools.partition_checker --own 3``.

Brokers of kwire and of Kafka replicate the same partitions. An idempotent producer, a transactional
one and a copier of its records write with acks=all, and consumers of both isolation levels read,
while brokers are killed, paused and stopped. Afterwards every acknowledged record has to be there
once and in order, no aborted one was read, nothing that a consumer saw was taken back or left out,
and the replicas' logs are equal. The result is a line of JSON; the exit status is 1 for a fault.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from tools.broker_kills.copier import Copier
from tools.broker_kills.reading import CLIENT_S, PARTITIONS
from tools.broker_kills.writers import TRANSACTION_S, Idempotent, Transactional, Writer
from tools.java import KAFKA_VERSION
from tools.partition_checker.brokers import Brokers, brokers
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


@click.command(
    epilog="Example: python -m tools.partition_checker --own 1 --java 2 --controllers kafka"
)
@click.option("--own", default=3, show_default=True, help="Brokers of kwire.")
@click.option("--java", default=0, show_default=True, help="Brokers of Kafka.")
@click.option(
    "--controllers", type=click.Choice(["kwire", "kafka"]), default="kwire", show_default=True,
    help="Whose controllers they have.",
)  # fmt: skip
@click.option("--release", default=KAFKA_VERSION, show_default=True, help="Kafka's release.")
@click.option("--rounds", default=20, show_default=True, help="Faults.")
@click.option("--fault", "kinds", multiple=True, type=click.Choice(sorted(FAULTS)),
              help="Only this kind; may be repeated.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Which broker is harmed how and when.")
@click.option("--pause", default=0.002, show_default=True, help="Between idempotent records, s.")
def main(
    own: int,
    java: int,
    controllers: str,
    release: str,
    rounds: int,
    kinds: Sequence[str],
    seed: int,
    pause: float,
) -> None:
    with brokers(own=own, java=java, controllers=controllers, version=release) as running:
        running.create(_TOPICS, PARTITIONS)
        writers = _writers(running.bootstrap, pause)
        readers = [Reader(running.bootstrap, *one) for one in _ISOLATION.items()]
        for thread in (*writers, *readers):
            thread.start()
        harms = _harm(running, rounds, kinds or sorted(FAULTS), random.Random(seed))
        violations = _judge(running, writers, readers)
    counts = {name: value for writer in writers for name, value in writer.counts().items()}
    seen = sum(len(found) for reader in readers for found in reader.seen.values())
    report = {"faults": harms, **counts, "seen": seen, "violations": violations}
    print(json.dumps(report))
    sys.exit(bool(violations))


def _writers(bootstrap: str, pause_s: float) -> Sequence[Writer]:
    return (
        Idempotent(bootstrap, "idempotent", pause_s),
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
    violations = [fault for writer in writers for fault in writer.violations()]
    for reader in readers:
        reader.end()
        final = read_to_end(running.bootstrap, reader.topic, PARTITIONS, CLIENT_S)
        violations += faults_of(reader, final)
    running.wait_in_sync(_TOPICS)
    for topic in _TOPICS:
        for partition in range(PARTITIONS):
            logs = {one.node_id: running.log_of(one, topic, partition) for one in running.nodes}
            logs = {node: log for node, log in logs.items() if log}
            violations += replica_faults(f"{topic}-{partition}", logs)
    return violations


if __name__ == "__main__":
    main()
