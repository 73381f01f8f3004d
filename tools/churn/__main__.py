"""``python -m tools.churn --minutes 60 --picture FILE.svg``: creates and deletes topics and groups,
measures memory and draws it.

It starts a quorum of kwire for that. The samples are appended to ``--samples`` while it runs, so
that an interrupted run keeps them; ``--draw`` makes the picture of such a file. Exit status 1 when
a node's memory grew by more than ``--allowed`` MiB an hour after the first ten minutes, or a
request failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.churn.load import Load
from tools.churn.picture import draw
from tools.churn.samples import Sample, append, growth_per_hour, load, measure
from tools.own_quorum import OwnCluster, own_quorum

_SAMPLE_S = 10.0
#: Before that a node still fills caches, pools and the tables of what is alive at a time.
_WARM_UP_S = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, or draw. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.churn", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rate", type=float, default=64, help="topics a second")
    parser.add_argument("--partitions", type=int, default=1, help="of each topic")
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="of every node"
    )
    parser.add_argument("--samples", type=Path, default=Path("churn.csv"))
    parser.add_argument("--picture", type=Path)
    parser.add_argument(
        "--allowed",
        type=float,
        default=2.0,
        metavar="MIB",
        help="growth in an hour after the first ten minutes",
    )
    parser.add_argument("--draw", action="store_true", help="only draw the picture of --samples")
    chosen = parser.parse_args(arguments)
    if not chosen.draw:
        properties = dict(one.split("=", 1) for one in chosen.property)
        with own_quorum(chosen.nodes, properties=properties) as cluster:
            _run(cluster, chosen)
    samples = load(chosen.samples)
    if chosen.picture is not None:
        title = (
            f"{samples[-1].topics:,} topics and {samples[-1].groups:,} groups created and deleted"
        )
        chosen.picture.write_text(draw(samples, title))
    return _judge(samples, chosen.allowed)


def _run(cluster: OwnCluster, chosen: argparse.Namespace) -> None:
    work = Load(
        [node.broker_address for node in cluster.nodes], chosen.rate, partitions=chosen.partitions
    )
    began = due = time.monotonic()
    work.start()
    try:
        while time.monotonic() - began < chosen.minutes * 60:
            work.check()
            seconds, counts = time.monotonic() - began, (work.topics, work.groups)
            append(
                chosen.samples,
                [
                    measure(
                        seconds, node.node_id, node.running_process().pid, node.log_dir, *counts
                    )
                    for node in cluster.nodes
                ],
            )
            due += _SAMPLE_S
            time.sleep(max(0.0, due - time.monotonic()))
    finally:
        work.stop()


def _judge(samples: Sequence[Sample], allowed: float) -> int:
    status = 0
    for node_id in sorted({one.node_id for one in samples}):
        of_node = [one for one in samples if one.node_id == node_id]
        warm = [one for one in of_node if one.seconds >= _WARM_UP_S]
        print(f"node {node_id}: {_span(of_node)} in the whole run")
        if len(warm) > 1:
            growth = growth_per_hour(warm)
            print(
                f"node {node_id}: {_span(warm)} after ten minutes, a line through it gains"
                f" {growth:.2f} MiB an hour"
            )
            status |= growth > allowed
    return status


def _span(samples: Sequence[Sample]) -> str:
    first, last = samples[0], samples[-1]
    most = max(one.rss_kib for one in samples) / 1024
    return (
        f"{first.rss_kib / 1024:.1f} to {last.rss_kib / 1024:.1f} MiB (at most {most:.1f}),"
        f" {first.descriptors} to {last.descriptors} file descriptors, {last.topics - first.topics}"
        f" topics, {last.groups - first.groups} groups"
    )


if __name__ == "__main__":
    sys.exit(main())
