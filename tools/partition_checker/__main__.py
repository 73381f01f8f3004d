"""Harms the brokers of a cluster again and again under load, and judges what is left: ``python -m
tools.partition_checker --own 3``.

Brokers of kwire and of Kafka replicate the same partitions. An idempotent producer, a transactional
one and a copier of its records write with acks=all, and consumers of both isolation levels read,
while brokers are killed, paused, stopped, cut off, and run on disks that are slow or full and with
clocks that step. Afterwards every acknowledged record has to be there once and in order, no aborted
one was read, nothing that a consumer saw was taken back or left out, new consumers found what was
acknowledged before, and the replicas' logs are equal. The result is a line of JSON; the exit status
is 1 for a violation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from tools.java import KAFKA_VERSION
from tools.partition_checker.brokers import brokers
from tools.partition_checker.faults import FAULTS
from tools.partition_checker.run import check


@click.command(
    epilog="Example: python -m tools.partition_checker --own 1 --java 2 --controllers kafka"
)
@click.option("--own", default=3, show_default=True, help="Brokers of kwire.")
@click.option("--java", default=0, show_default=True, help="Brokers of Kafka.")
@click.option(
    "--controllers", type=click.Choice(["kwire", "kafka", "combined"]), default="kwire",
    show_default=True, help="Whose controllers they have; combined: each broker is one.",
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
        report = check(running, rounds, kinds or sorted(FAULTS), seed, pause)
    print(json.dumps(report))
    sys.exit(bool(report["violations"]))


if __name__ == "__main__":
    main()
