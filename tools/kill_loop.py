"""Kills nodes of a quorum of three a thousand times under load, in parts: ``python -m
tools.kill_loop``.

Each part starts a new cluster, runs a number of cycles, and checks the whole history for loss. The
result is a JSON file that grows by one entry for each part: a run that was stopped continues there.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tools.consistency_checker.checker import Minimum
from tools.consistency_checker.faults import APPENDS, KILLS
from tools.consistency_checker.run import Result, judge, under_load
from tools.kafka import Cluster, kafka
from tools.own_quorum import QUICK, own_quorum

_NODES = 3


@click.command(epilog="Example: python -m tools.kill_loop --cycles 1000 --out kill-loop.json")
@click.option(
    "--cycles",
    default=1000,
    show_default=True,
    help="Cycles in all, those of earlier runs in --out included.",
)
@click.option(
    "--part",
    default=50,
    show_default=True,
    help="Cycles of one cluster, after which everything is checked.",
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    help="What is killed when; each part adds its number to it.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(list(KILLS)),
    help="Only these. [default: all, by weight]",
)
@click.option(
    "--peer",
    type=click.Choice(["own", "kafka"]),
    default="own",
    show_default=True,
    help="Whose controllers.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("kill-loop.json"),
    show_default=True,
)
def main(cycles: int, part: int, seed: int, kinds: tuple[str, ...], peer: str, out: Path) -> None:
    """Kill, wait until appends are acknowledged again, repeat; then read every log and check. Exit
    1 when a rule is broken.
    """
    parts = json.loads(out.read_text())["parts"] if out.exists() else []
    while (done := sum(one["cycles"] for one in parts)) < cycles:
        number = min(part, cycles - done)
        entry = run_part(number, random.Random(seed + len(parts)), kinds or tuple(KILLS), peer)
        parts.append({"seed": seed + len(parts), "commit": _commit(), **entry})
        out.write_text(json.dumps({**total(parts), "parts": parts}, indent=1) + "\n")
        click.echo(f"{done + number}/{cycles}: {json.dumps(parts[-1])}")
        if entry["violations"]:
            sys.exit(1)
    click.echo(json.dumps(total(parts)))


def run_part(cycles: int, rng: random.Random, kinds: tuple[str, ...], peer: str) -> dict[str, Any]:
    """Run one cluster's cycles and return their result for the file."""
    began, weights = time.monotonic(), [KILLS[kind][1] for kind in kinds]
    with tempfile.TemporaryDirectory(prefix="kwire-kill-") as scratch:
        result = kill(rng.choices(kinds, weights, k=cycles), rng, peer, Path(scratch) / "journal")
    violations = [f"{one.rule}: {one.text}" for one in result.violations]
    return {
        "cycles": cycles,
        "peer": peer,
        "wall_s": round(time.monotonic() - began, 1),
        **result.facts,
        "violations": violations,
    }


def kill(kinds: Sequence[str], rng: random.Random, peer: str, journal: Path) -> Result:
    """Run a cycle of each kind, in this order, against a new cluster, and judge it. Raises
    AdminError if no append is acknowledged.
    """
    cycles = len(kinds)
    with _cluster(peer) as cluster:
        cluster.wait_for_leader()
        with under_load(cluster, journal) as run:
            run.writers.wait_for(APPENDS)
            for kind in kinds:
                KILLS[kind][0](run, rng)
                run.fault_began(kind)
        for node in cluster.nodes:
            cluster.wait_for_node(node)
        return judge(
            run,
            Minimum(acknowledged=APPENDS * cycles, epochs=min(cycles, 2), leader_answers=cycles),
        )


def total(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over all parts, and their worst values."""
    summed = (
        "cycles",
        "acknowledged",
        "unknown",
        "failed",
        "epochs",
        "offsets",
        "batches_read",
        "leader_answers",
        "wall_s",
    )
    recoveries = [one["recovery_s_median"] for one in parts if one["recovery_s_median"] is not None]
    return {
        **{key: round(sum(one[key] for one in parts), 1) for key in summed},
        "recovery_s_median": sorted(recoveries)[len(recoveries) // 2] if recoveries else None,
        "recovery_s_max": max((one["recovery_s_max"] or 0 for one in parts), default=None),
        "violations": sum(len(one["violations"]) for one in parts),
    }


@contextmanager
def _cluster(peer: str) -> Iterator[Cluster]:
    if peer == "own":
        with own_quorum(_NODES, properties=QUICK) as own:
            yield own
    else:
        # A starved scheduler does not keep kwire's shortest timeouts in a JVM.
        slower = {**QUICK, "controller.quorum.fetch.timeout.ms": "1000"}
        with kafka(
            brokers=0,
            controllers=_NODES,
            static_voters=True,
            properties=slower,
        ) as real:
            yield real


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
