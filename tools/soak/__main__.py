"""``python -m tools.soak mixed`` and ``python -m tools.soak churn``: run servers under load, sample
their memory and file descriptors, print how they grew, and charts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from tools.own_quorum import own_quorum
from tools.relay_tree import relay_chain
from tools.soak import mixed_load
from tools.soak.samples import Sample, chart, grew, growth, take
from tools.soak.topic_churn import Load

_SNAPSHOT_MS: Final = 60_000
#: Servers keep the log, the audit log and committed offsets on purpose. These bounds are far below
#: what a run of hours writes, so that they explain no growth.
_PROPERTIES: Final = {
    "metadata.log.max.snapshot.interval.ms": str(_SNAPSHOT_MS),
    "metadata.log.segment.bytes": str(64 << 10),
    "metadata.max.retention.bytes": str(128 << 10),
    "metadata.audit.segment.bytes": str(64 << 10),
    "metadata.audit.retention.bytes": str(128 << 10),
    "offsets.retention.minutes": "2",
    "offsets.retention.check.interval.ms": "30000",
}
#: Keys that only a voter has.
_OF_VOTERS: Final = "metadata.audit."


def _run_options(minutes: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of every run."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option(
                "--out",
                type=click.Path(path_type=Path, dir_okay=False),
                default=Path("soak.json"),
                show_default=True,
                help="File for the samples, written while it runs.",
            ),
            click.option(
                "--every",
                type=click.FloatRange(min=0.1),
                default=10,
                show_default=True,
                help="Seconds between two samples.",
            ),
            click.option(
                "--settled",
                type=click.FloatRange(min=0),
                default=10,
                show_default=True,
                help="Minutes after which memory has to be flat.",
            ),
            click.option(
                "--minutes", type=click.FloatRange(min=0.1), default=minutes, show_default=True
            ),
        ):
            command = option(command)
        return command

    return add


@click.group()
def main() -> None:
    """Run servers under load for hours, and show whether they grow."""


@main.command()
@_run_options(120)
@click.option(
    "--times",
    type=click.FloatRange(min=0.1),
    default=1,
    show_default=True,
    help="How many times the usual load; the usual one has 1,000 connections a minute.",
)
@click.option(
    "--depose-every",
    type=click.FloatRange(min=1),
    default=300,
    show_default=True,
    help="Seconds between two leaders that are killed, on average.",
)
@click.option("--seed", type=int, default=1, show_default=True)
def mixed(
    minutes: float,
    settled: float,
    every: float,
    out: Path,
    times: float,
    depose_every: float,
    seed: int,
) -> None:
    """Three voters and a gateway under mixed load.

    Exit status 1 if the memory of a process that lasted grew by more than a tenth after the time to
    settle, or its open descriptors by more than ten.
    """
    with (
        own_quorum(3, properties=_PROPERTIES) as cluster,
        relay_chain(
            ",".join(node.controller_address for node in cluster.nodes), 1, *_gateway_arguments()
        ) as [relay],
    ):
        cluster.wait_for_leader()
        load = mixed_load.MixedLoad(cluster, relay.bootstrap, seed)

        def counts() -> Mapping[str, Any]:
            return {"done": load.done, "missed": load.missed}

        def pids() -> Mapping[str, int]:
            return {"gateway": relay.pid, "voter": load.lasting.running_process().pid}

        with mixed_load.running(load, times, depose_every):
            samples = _watch(pids, counts, minutes, every, out)
        _print(samples, settled, counts())
    sys.exit(any(grew(one, settled * 60) for one in samples.values()))


def _gateway_arguments() -> Iterator[str]:
    """Yield the options of ``kwire serve`` for those properties that a gateway has too."""
    for key, value in _PROPERTIES.items():
        if not key.startswith(_OF_VOTERS):
            yield from (f"--{key.replace('.', '-')}", value)


@main.command()
@_run_options(60)
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--rate", type=float, default=64, show_default=True, help="Topics a second.")
@click.option("--partitions", type=int, default=1, show_default=True, help="Of each topic.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Of each node.")
@click.option(
    "--allowed",
    type=float,
    default=2,
    show_default=True,
    help="Growth of memory after the time to settle, MiB an hour.",
)
def churn(
    minutes: float,
    settled: float,
    every: float,
    out: Path,
    nodes: int,
    rate: float,
    partitions: int,
    properties: Sequence[str],
    allowed: float,
) -> None:
    """A quorum whose topics and groups are made, used once and deleted.

    Exit status 1 if the memory of a node grew by more than is allowed, or a request failed.
    """
    with own_quorum(nodes, properties=dict(one.split("=", 1) for one in properties)) as cluster:
        addresses = [node.broker_address for node in cluster.nodes]
        load = Load(addresses, rate, partitions=partitions)

        def counts() -> Mapping[str, Any]:
            return {"topics": load.topics, "groups": load.groups}

        def pids() -> Mapping[str, int]:
            load.check()
            return {f"node {node.node_id}": node.running_process().pid for node in cluster.nodes}

        load.start()
        try:
            samples = _watch(pids, counts, minutes, every, out)
        finally:
            load.stop()
    grown = _print(samples, settled, counts())
    sys.exit(any(one["memory_mib_an_hour"] > allowed for one in grown))


def _watch(
    pids: Callable[[], Mapping[str, int]],
    counts: Callable[[], Mapping[str, Any]],
    minutes: float,
    every_s: float,
    out: Path,
) -> dict[str, list[Sample]]:
    """Sample the processes for ``minutes``; ``out`` always has all samples so far."""
    samples: dict[str, list[Sample]] = {}
    began = time.monotonic()
    while (at_s := time.monotonic() - began) < minutes * 60:
        for name, pid in pids().items():
            samples.setdefault(name, []).append(take(pid, at_s))
        out.write_text(json.dumps({**counts(), "samples": samples}) + "\n")
        time.sleep(every_s)
    return samples


def _print(
    samples: Mapping[str, Sequence[Sample]], settled_min: float, counts: Mapping[str, Any]
) -> list[Mapping[str, float]]:
    """Print how each process grew, what was done, and charts. Returns the growths."""
    grown = [growth(one, settled_min * 60) for one in samples.values()]
    for name, one in zip(samples, grown, strict=True):
        click.echo(f"{name}: {json.dumps(one)}")
    click.echo(json.dumps(counts))
    for title, unit, column in (("Memory", "MiB", 1), ("Open file descriptors", "number", 2)):
        lines = [[(one.at_s, one[column]) for one in part] for part in samples.values()]
        click.echo(chart(f"{title}: {' and '.join(samples)}", unit, lines))
    return grown


if __name__ == "__main__":
    main(prog_name="python -m tools.soak")
