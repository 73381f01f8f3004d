"""``python -m tools.relay_plan --readers 10000 --hosts 100``: plans a tree of gateways, and
simulates how late each of its levels is.

The quorum's leader serves ``--relays`` gateways, these serve one gateway on each host, and that one
serves its share of the readers. A gateway is a server with one processor: a commit is an answer to
each of its children, one after the other, and the next commit waits for them. ``python -m
tools.bench relays`` measures the cost of an answer and of a level. Networks between hosts are not
part of the figures; add their round trip for each level.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

#: Bytes of an answer to a Fetch beside its records: frame, headers, topic and partition.
_ANSWER_BYTES = 120
#: Commits that are simulated, and the seed of their times.
_COMMITS, _SEED = 300, 1


@dataclass(frozen=True)
class Plan:
    """``reader_us`` and ``observer_us``: processor time of a gateway for one answer to a consumer
    and to an observer. ``level_ms``: from a commit to the next level, with one child.
    """

    readers: int = 10_000
    hosts: int = 100
    relays: int = 2
    commits_per_s: float = 22.0
    record_bytes: int = 200
    reader_us: float = 300.0
    observer_us: float = 400.0
    level_ms: float = 4.0

    @property
    def fan_out(self) -> tuple[int, int, int]:
        """Children of the leader, of a relay and of a host's gateway, rounded up."""
        return self.relays, -(-self.hosts // self.relays), -(-self.readers // self.hosts)

    def processor(self, level: int) -> float:
        """Share of a processor that a gateway of level 1 or 2 takes for its children."""
        cost_us = self.observer_us if level == 1 else self.reader_us
        return self.commits_per_s * self.fan_out[level] * cost_us / 1e6

    def bytes_per_s(self, level: int) -> float:
        """Bytes that the leader (0) or a gateway of a level sends in a second."""
        size = self.record_bytes + _ANSWER_BYTES
        return self.commits_per_s * self.fan_out[level] * size


def lags(plan: Plan, commits: int = _COMMITS) -> tuple[list[float], list[float], list[float]]:
    """Return how late relays, hosts' gateways and readers have a commit, in ms, for every child and
    commit of a simulated run.

    Commits come at random times (a Poisson process), so that some come while others are answered.
    """
    rng = random.Random(_SEED)
    relays = [_Server() for _ in range(plan.relays)]
    hosts = [_Server() for _ in range(plan.hosts)]
    per_host = plan.fan_out[2]
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    now = 0.0
    for _ in range(commits):
        now += rng.expovariate(plan.commits_per_s)
        at_relays = [now + plan.level_ms / 1000] * plan.relays
        at_hosts = [
            at + plan.level_ms / 1000
            for number, (relay, at) in enumerate(zip(relays, at_relays, strict=True))
            for at in relay.answers(
                at, len(range(number, plan.hosts, plan.relays)), plan.observer_us
            )
        ]
        at_readers = (
            answered
            for host, at in zip(hosts, at_hosts, strict=True)
            for answered in host.answers(at, per_host, plan.reader_us)
        )
        for level, times in zip(found, (at_relays, at_hosts, at_readers), strict=True):
            level.extend(1000 * (at - now) for at in times)
    return found


class _Server:
    """One gateway: it answers its children one after the other."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def answers(self, at: float, children: int, cost_us: float) -> list[float]:
        """Return when each child has the answer to a commit that came ``at``."""
        began = max(at, self._free_at)
        times = [began + number * cost_us / 1e6 for number in range(1, children + 1)]
        self._free_at = times[-1] if times else began
        return times


def lines(plan: Plan) -> Sequence[str]:
    """Return the plan as a table in Markdown, with the simulated lag of each level."""
    names = ("relay", "gateway of a host", "reader")
    counts = (plan.relays, plan.hosts, plan.readers)
    above = ("the leader", "a relay", "a gateway of a host")
    rows = [
        "| level | number | children of one above | one above sends | processor of that one "
        "| lag p50 | p99 |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for level, found in enumerate(lags(plan)):
        cuts = statistics.quantiles(found, n=100)
        processor = "" if level == 0 else f"{100 * plan.processor(level):.0f} %"
        rows.append(
            f"| {names[level]} | {counts[level]:,} | {plan.fan_out[level]} ({above[level]}) "
            f"| {plan.bytes_per_s(level) / 1000:,.0f} kB/s | {processor} "
            f"| {statistics.median(found):.0f} ms | {cuts[98]:.0f} ms |"
        )
    return rows


@click.command(epilog="Example: python -m tools.relay_plan --readers 10000 --hosts 100 --relays 2")
@click.option("--readers", default=Plan.readers, help="Consumers in all.")
@click.option("--hosts", default=Plan.hosts, help="Hosts, each with one gateway.")
@click.option("--relays", default=Plan.relays, help="Gateways that observe the quorum itself.")
@click.option("--commits-per-second", "commits_per_s", default=Plan.commits_per_s)
@click.option("--record-bytes", default=Plan.record_bytes, help="Bytes of one commit.")
@click.option("--reader-us", default=Plan.reader_us, help="Processor time of an answer, µs.")
@click.option("--observer-us", default=Plan.observer_us, help="The same to an observer, µs.")
@click.option("--level-ms", default=Plan.level_ms, help="Lag of a level with one child, ms.")
def main(**given: float) -> None:
    """Print the plan and the simulated lag of each level."""
    plan = Plan(**given)  # type: ignore[arg-type]
    for line in lines(plan):
        click.echo(line)
    if max(plan.processor(1), plan.processor(2)) >= 1:
        click.echo("A gateway needs more than one processor: use more relays or hosts.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
