"""Samples memory and file descriptors of processes from /proc (Linux), says how they grew, and
draws them. It starts nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools.process import memory_mib

#: Connections that the load may have at one server when a sample is taken.
_CONNECTIONS_OPEN: Final = 10
#: Values in a chart.
_POINTS: Final = 24


class Sample(NamedTuple):
    """A process at a moment: seconds since the start, MiB, open file descriptors."""

    at_s: float
    memory_mib: float
    descriptors: int


def take(pid: int, at_s: float) -> Sample:
    """Sample the process ``pid``. Raises OSError if it does not exist."""
    return Sample(at_s, memory_mib(pid), len(list(Path(f"/proc/{pid}/fd").iterdir())))


def growth(samples: Sequence[Sample], after_s: float) -> Mapping[str, float]:
    """Return how a process grew from ``after_s`` on: medians of the first and the last tenth of
    these samples, so that one moment does not decide; and the slope of a line through the memory
    of all.
    """
    late = [one for one in samples if one.at_s >= after_s]
    if len(late) < 2:
        raise ValueError(f"fewer than two samples after {after_s:.0f} s")
    part = max(1, len(late) // 10)
    first, last = late[:part], late[-part:]

    return {
        "memory_mib_then": statistics.median_high(one.memory_mib for one in first),
        "memory_mib_at_the_end": statistics.median_high(one.memory_mib for one in last),
        "memory_mib_an_hour": 3600
        * statistics.linear_regression(
            [one.at_s for one in late], [one.memory_mib for one in late]
        ).slope,
        "descriptors_then": statistics.median_high(one.descriptors for one in first),
        "descriptors_at_the_end": statistics.median_high(one.descriptors for one in last),
    }


def chart(title: str, unit: str, lines: Sequence[Sequence[tuple[float, float]]]) -> str:
    """Return a Mermaid chart of (seconds, value) lines with the same times, in minutes."""
    times = [at_s for at_s, _ in lines[0]]
    chosen = range(0, len(times), -(-len(times) // _POINTS))
    highest = max(value for line in lines for _, value in line)
    minutes = ", ".join(f"{times[n] / 60:.0f}" for n in chosen)
    drawn = "\n".join(
        f"    line [{', '.join(f'{line[n][1]:.0f}' for n in chosen)}]" for line in lines
    )
    return (
        f'```mermaid\nxychart-beta\n    title "{title}"\n    x-axis "minutes" [{minutes}]\n'
        f'    y-axis "{unit}" 0 --> {highest * 1.25:.0f}\n{drawn}\n```\n'
    )


def grew(samples: Sequence[Sample], after_s: float) -> bool:
    """Return whether a process grew after ``after_s``: its memory by more than a tenth, or its
    descriptors by more than the load holds open at a time.
    """
    found = growth(samples, after_s)
    memory, descriptors = found["memory_mib_then"], found["descriptors_then"]
    return (
        found["memory_mib_at_the_end"] > memory * 1.1
        or found["descriptors_at_the_end"] > descriptors + _CONNECTIONS_OPEN
    )
