"""Kills the job of the fleet's tables again and again: ``python -m tools.fleet_kills LOG...``.

``kwire spark fleet --follow`` keeps Delta or Iceberg tables of clusters on a standalone cluster of
Spark: a master, a worker, an executor. Each cluster is a copy of a log that grows. In turn the
driver, the executor and the worker are killed with SIGKILL while the tables are merged into, and
started again. Afterwards the tables have to have each record of the view topics once and as it is,
and the last one of each entity in the state. The result is a line of JSON, and the exit status is 1
for a fault.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kwire.jars.table_formats import NEWEST
from kwire.records.header import iter_batches
from kwire.spark.fleet.place import Format
from kwire.spark.fleet.probe import ask
from tools.fleet_rows import faults, records_of, rows_of
from tools.log_servers import log_servers
from tools.process import PATIENCE_S
from tools.pyspark_release import environment
from tools.spark_standalone import Job, Standalone, standalone

_PARTITION: Final = "__cluster_metadata-0"
KILLED: Final = ("driver", "executor", "worker")
_VIEWS: Final = ("topics", "partitions", "configs", "changes")
#: How long the job may take to bring the tables to the ends of the logs, s; a cold JVM is slow.
_ROUND_S: Final = 10 * PATIENCE_S
#: Each so many kills one comes before a table was merged into: while the job reads or starts.
_EARLY: Final = 4


@click.command(epilog="Example: python -m tools.fleet_kills --kills 30 DIRECTORY_OF_A_LOG")
@click.argument("logs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--kills", default=30, show_default=True, help="In all, at most.")
@click.option("--minutes", type=float, default=600.0, help="No kill comes later than this.")
@click.option("--seed", default=1, show_default=True, help="When the kills come.")
@click.option("--format", "format_", type=click.Choice(["delta", "iceberg"]), default="delta")
@click.option("--view", "views", multiple=True, default=_VIEWS, show_default=True)
def main(
    logs: Sequence[Path],
    kills: int,
    minutes: float,
    seed: int,
    format_: Format,
    views: Sequence[str],
) -> None:
    """Keep tables of the clusters whose log directories (with one segment from offset 0) are
    LOGS.
    """
    with tempfile.TemporaryDirectory(prefix="kwire-fleet-kills-") as directory:
        report = compare_after_kills(
            logs, Path(directory), kills, format_, views, random.Random(seed), 60 * minutes
        )
    print(json.dumps(report))
    sys.exit(bool(report["faults"]))


def compare_after_kills(
    logs: Sequence[Path],
    scratch: Path,
    kills: int,
    format: Format,
    views: Sequence[str],
    choose: random.Random,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Kill the job so many times, but not later than ``seconds`` after its start; then compare the
    tables. Return how often what was killed, and the faults. Raises InstallError, ProcessError,
    RuntimeError, and ValueError for a log that is not of one segment from offset 0.
    """
    python = str(environment(NEWEST[format]))
    copies = [GrowingLog(log, scratch / f"log-{n}") for n, log in enumerate(logs)]
    with (
        log_servers(*(one.directory for one in copies)) as addresses,
        standalone(python, scratch) as cluster,
    ):
        killing = Killing(cluster, copies, addresses, scratch / "tables", views)
        done = killing.run(kills, seconds, choose)
        found = faults(
            {view: records_of(addresses, view) for view in views},
            lambda table: rows_of(scratch / "tables", table, format),
        )
        return {"format": format, **done, "faults": list(found)}


class GrowingLog:
    """A copy of a log of one segment, of which more and more is written."""

    def __init__(self, source: Path, directory: Path) -> None:
        """Copy the first batch. Raises ValueError for a log that does not begin at 0."""
        [segment, *others] = sorted((source / _PARTITION).glob("*.log"))
        if int(segment.stem) or others:
            raise ValueError(f"{source} is not a log of one segment from offset 0")
        self.directory = directory
        shutil.copytree(source, directory)
        for file in (directory / _PARTITION).iterdir():
            if file.name[:1].isdigit():
                file.unlink()
        self._data = segment.read_bytes()
        self._ends = [one.position + one.size for one in iter_batches(self._data)]
        self._file = directory / _PARTITION / segment.name
        self._written = 0
        self.grow(0)

    def grow(self, share: float) -> None:
        """Write so much of the log as a share of it; one batch at least."""
        end = self._ends[min(round(share * len(self._ends)), len(self._ends) - 1)]
        with self._file.open("ab") as file:
            file.write(self._data[self._written : end])
        self._written = max(self._written, end)


class Killing:
    """The job, what is killed of it, and how far it came."""

    def __init__(
        self,
        cluster: Standalone,
        logs: Sequence[GrowingLog],
        addresses: Sequence[str],
        where: Path,
        views: Sequence[str],
    ) -> None:
        self._cluster, self._logs, self._addresses = cluster, logs, addresses
        self._where, self._views = where, views
        named = [f"c{number}={address}" for number, address in enumerate(addresses)]
        options = [option for view in views for option in ("--view", view)]
        self._command = [*named, "--tables", str(where), *options, "--follow", "0.1"]
        self._job: Job | None = None
        self._merging_s = 1.0
        #: Where the views of each server ended after the last growth.
        self._ends = [0] * len(logs)
        self._counts = Counter[str]()

    def run(self, kills: int, seconds: float, choose: random.Random) -> dict[str, Any]:
        """Kill so many times, or for so long, then let the job come to the end. Return what was
        done.
        """
        self._start()
        deadline = time.monotonic() + seconds
        for number in range(kills):
            if time.monotonic() > deadline:
                break
            self._grow((number + 1) / (kills + 1))
            if number % _EARLY:
                self._wait_for_a_commit()
                time.sleep(choose.uniform(0, self._merging_s))
            else:
                time.sleep(choose.uniform(0, 5))
            what = KILLED[number % len(KILLED)]
            behind = self._is_behind()
            self._kill(what)
            self._counts[what] += 1
            self._counts["interrupted"] += behind
            print(f"{number + 1} of {kills}: {what}, {self._commits()} commits", file=sys.stderr)
            began = time.monotonic()
            self._wait(lambda: not self._is_behind(), "the tables come to the ends of the logs")
            self._merging_s = max(1.0, min(30.0, (time.monotonic() - began) / 2))
        self._grow(1)
        self._wait(lambda: not self._is_behind(), "the tables come to the ends of the logs")
        self._running().kill()
        return {"kills": dict(self._counts), "commits": self._commits()}

    def _grow(self, share: float) -> None:
        before = self._ends
        for log in self._logs:
            log.grow(share)

        def is_served() -> bool:
            self._ends = self._asked_ends()
            return all(old < new for old, new in zip(before, self._ends, strict=True))

        self._wait(is_served, "the servers have the new records")

    def _start(self) -> None:
        self._job = self._cluster.job(self._command)

    def _running(self) -> Job:
        assert self._job is not None
        return self._job

    def _kill(self, what: str) -> None:
        if what == "driver":
            self._running().kill()
            self._start()
        elif what == "executor":
            self._counts["no executor"] += not self._cluster.kill_executors()
        else:
            self._cluster.kill_worker()

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        """Return when ``ready``; start the job again where it has ended meanwhile."""
        deadline = time.monotonic() + _ROUND_S
        while not ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not in time\n{self._running().output_end()}")
            if not self._running().is_alive():
                self._counts["job ended"] += 1
                self._start()
            time.sleep(0.5)

    def _wait_for_a_commit(self) -> None:
        before = self._commits()
        self._wait(lambda: self._commits() > before or not self._is_behind(), "a table is written")

    def _commits(self) -> int:
        """How many versions all tables have."""
        versions = ("*/_delta_log/*.json", "*/metadata/v*.metadata.json")
        return sum(1 for pattern in versions for _ in self._where.glob(pattern))

    def _asked_ends(self) -> list[int]:
        return [ask(_server(one), {}, self._views).end for one in self._addresses]

    def _is_behind(self) -> bool:
        """True if a log has more than its cluster's row says was read."""
        return sorted(self._positions()) != sorted(self._ends)

    def _positions(self) -> Iterator[int]:
        for format in ("delta", "iceberg"):
            for row in rows_of(self._where, "clusters", format):
                yield row["position"] or 0


def _server(address: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": address}


if __name__ == "__main__":
    main()
