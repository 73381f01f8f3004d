"""Samples the memory and descriptors of a process from ``/proc`` (Linux), and keeps them in a
file.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    """``seconds`` since the run began; ``rss_kib`` resident memory, of which ``anonymous_kib``
    belongs to no file; ``topics`` and ``groups`` deleted so far; ``disk_bytes`` of the node's data
    directory.
    """

    seconds: float
    node_id: int
    rss_kib: int
    anonymous_kib: int
    descriptors: int
    topics: int
    groups: int
    disk_bytes: int


def measure(
    seconds: float, node_id: int, pid: int, data_dir: Path, topics: int, groups: int
) -> Sample:
    """Measure the process ``pid``. Raises OSError if it does not exist."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    rss, anonymous = (int(status[name].split()[0]) for name in ("VmRSS", "RssAnon"))
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    return Sample(
        round(seconds, 1), node_id, rss, anonymous, descriptors, topics, groups, _size(data_dir)
    )


def _size(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # retention deleted it meanwhile
            continue
    return total


def append(path: Path, samples: Iterable[Sample]) -> None:
    """Add lines to a CSV file, which begins with the names of the columns."""
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(Sample._fields)
        writer.writerows(samples)


def load(path: Path) -> list[Sample]:
    """Return all samples of a file that :func:`append` wrote."""
    with path.open(newline="") as file:
        return [Sample(float(row[0]), *map(int, row[1:])) for row in list(csv.reader(file))[1:]]


def growth_per_hour(samples: Sequence[Sample]) -> float:
    """Return the growth of a node's resident memory in MiB an hour: the slope of a least squares
    line through its samples.
    """
    count = len(samples)
    middle_x = sum(one.seconds for one in samples) / count
    middle_y = sum(one.rss_kib for one in samples) / count
    spread = sum((one.seconds - middle_x) ** 2 for one in samples)
    together = sum((one.seconds - middle_x) * (one.rss_kib - middle_y) for one in samples)
    return together / spread * 3600 / 1024 if spread else 0.0
