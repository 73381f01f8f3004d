"""Runs the fuzzer once: sends frames to one listener of running servers, then examines the
servers.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from gateway.handlers.table import controller_handlers, handlers
from tools.fuzz_server.connections import Attack, Seen
from tools.fuzz_server.frames import Frame, FrameSource
from tools.fuzz_server.servers import Findings, Server, examine
from tools.fuzz_server.values import Known

#: The handlers of each listener.
TABLES: Final = {"broker": handlers, "controller": controller_handlers}
#: Frames that a report of a fault shows.
_SHOWN: Final = 24


@dataclass(frozen=True)
class Result:
    """The result of a run. ``suspects``: frames on connections that a fault's log line names."""

    seen: Seen
    findings: Findings
    seconds: float
    served: int  #: APIs at versions that the listener has
    suspects: Sequence[Frame]

    @property
    def faults(self) -> list[str]:
        """A sentence for each fault; empty if there is none."""
        return [*self.findings.faults, *self.seen.failures]

    def summary(self) -> str:
        """Return the result in a few lines of text."""
        seen, found = self.seen, self.findings
        count = sum(seen.frames.values())
        lines = [
            f"{count:,} frames in {self.seconds:.0f} s, {count / self.seconds:,.0f} a second, over "
            f"{seen.connections:,} connections; {found.cpu_s:.0f} s of the servers' processor time",
            f"  answered to valid frames: {len(seen.answered)} of {self.served} APIs at versions",
            "  closed by rule: " + _table(found.closes),
            "  answers by error: " + _table(seen.errors),
        ]
        for kind in seen.frames:
            fates = {
                supervisor: number for (of, supervisor), number in seen.fates.items() if of == kind
            }
            lines.append(f"  {kind}: {seen.frames[kind]:,}, " + _table(Counter(fates)))
        lines += [
            f"  node {id}: {a:.0f} MiB before, {b:.0f} MiB at most"
            for id, (a, b) in found.memory_mib.items()
        ]
        lines += [f"  event loop held: {line}" for line in found.held]
        lines += [f"  FAULT: {fault}" for fault in self.faults]
        lines += [
            f"  frame {one.number} ({one.kind}): {one.data[:4000].hex()}" for one in self.suspects
        ]
        return "\n".join(lines)


def fuzz(
    server: Server, listener: str, *, seed: int, first: int, count: int, connections: int
) -> Result:
    """Send ``count`` frames from number ``first`` on to ``listener`` (a key of TABLES) of all
    nodes.
    """
    table = TABLES[listener]()
    known = Known(server.cluster.cluster_id, server.epoch)
    source = FrameSource(seed, listener, table, known)
    return _run(server, listener, map(source.make, range(first, first + count)), known, connections)


def replay(server: Server, listener: str, data: Sequence[bytes]) -> Result:
    """Send these frames, one after another, to ``listener`` of the leader."""
    known = Known(server.cluster.cluster_id, server.epoch)
    frames = (Frame(number, -1, -1, "bytes changed", one) for number, one in enumerate(data))
    return _run(server, listener, frames, known, 1)


def _run(
    server: Server, listener: str, frames: Iterator[Frame], known: Known, connections: int
) -> Result:
    nodes = server.cluster.nodes if connections > 1 else [server.node]
    attacks = [
        Attack(server.port(listener.upper(), node), frames, known, server.logins) for node in nodes
    ]
    server.begin_run()
    began = time.monotonic()
    stuck = ""
    try:
        trio.run(_all, attacks, max(1, connections // len(attacks)))
    except* trio.TooSlowError:
        stuck = "the server does not accept connections"
    seconds = time.monotonic() - began
    findings = examine(server)
    if stuck:
        findings.faults.append(stuck)
    seen = Seen.together([attack.seen for attack in attacks])
    latest = dict(itertools.chain.from_iterable(attack.latest.items() for attack in attacks))
    suspects = [frame for port in findings.ports if port in latest for frame in latest[port]]
    table = TABLES[listener]()
    served = sum(len({*handler.versions, *handler.old_requests}) for handler in table.values())
    return Result(seen, findings, seconds, served, suspects[:_SHOWN])


async def _all(attacks: Sequence[Attack], connections: int) -> None:
    async with trio.open_nursery() as nursery:
        for attack in attacks:
            nursery.start_soon(attack.run, connections)


def _table(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.most_common() if number)
