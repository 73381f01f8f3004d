"""Runs thousands of simulations and keeps the results.

    python -m tests.sim.campaign 0 100000
    python -m tests.sim.campaign --docs

Every 250 schedules are one line of ``runs.jsonl``: the commit, a hash of the core and the
simulation, the seeds, and the result. Seeds that were run with the same core are not run again.
``--docs`` writes the tables of ``docs/simulation.md``. ``tests.sim.brokers.campaign`` does the same
for brokers.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.sim import power
from tests.sim.kills import Kills
from tests.sim.schedule import Failed, Tally

ROOT: Final = Path(__file__).resolve().parent.parent.parent
#: Schedules of one line of the results.
_CHUNK: Final = 250
_BEHIND_HEALING: Final = "from healing to a commit, p99 of each line of results, s"


class Campaign:
    """A kind of simulation: its schedules, the files that its results depend on, and the file of
    its results.
    """

    def __init__(
        self,
        kills: Kills,
        folders: Sequence[str],
        runs: Path,
        page: str,
        marks: tuple[str, str],
        columns: tuple[str, str] = ("proposals acknowledged", _BEHIND_HEALING),
        unit_tests: Mapping[str, str] | None = None,
    ) -> None:
        """``folders``: those whose files are under test. ``marks``: those around the two tables in
        ``page``. ``columns``: what two columns are called. ``unit_tests``: by bug, the one that
        finds it where no schedule does.
        """
        self._kills, self._folders = kills, folders
        self._runs, self._page = runs, ROOT / page
        self._marks, self._columns = marks, columns
        self._unit_tests = unit_tests or {}

    def core_hash(self) -> str:
        """Identify the code under test: the files of the core and of the simulation.

        Results of another core, or of another simulation, say nothing about this one.
        """
        folders = [path for one in self._folders for path in (ROOT / one).rglob("*.py")]
        files = sorted([*folders, *self._runs.parent.glob("*.py")])
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]

    def runs(self) -> list[dict[str, Any]]:
        """All lines of the file of results."""
        if not self._runs.exists():
            return []
        return [json.loads(line) for line in self._runs.read_text(encoding="utf-8").splitlines()]

    def run(self, first: int, last: int) -> int:
        """Run the seeds from ``first`` to below ``last`` that were not run with this core.

        Return 1 if a schedule failed, else 0.
        """
        core = self.core_hash()
        done = {line["first"] for line in self.runs() if line["core"] == core}
        asked = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(
            asked, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        failures = 0
        for begin in range(first, last, _CHUNK):
            if begin in done:
                continue
            line: dict[str, Any] = {
                "core": core,
                "commit": commit,
                "first": begin,
                "last": min(begin + _CHUNK, last),
            }
            try:
                tally = self._kills.schedules.run_many(range(begin, line["last"]))
                line |= summary(tally)
            except Failed as failed:
                failures += 1
                line["violation"] = str(failed)
            with self._runs.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(line) + "\n")
            print(line.get("violation") or f"{begin}: {tally}", flush=True)
        return 1 if failures else 0

    def mutants_table(self) -> Iterable[str]:
        """One row per seeded bug."""
        kills, bugs = self._kills.known(), self._kills.bugs
        found = sorted(kill.schedules for kill in kills.values())
        median, most = statistics.median(found or [0]), max(found or [0])
        others = ", the others by unit tests" if self._unit_tests else ""
        yield (
            f"{len(kills)} of {len(bugs)} killed{others}; schedules needed: median {median:g},"
            f" most {most}."
        )
        yield ""
        yield "| bug | from | schedules | found by |"
        yield "|---|---|---|---|"
        for name, bug in bugs.items():
            kill = kills.get(name)
            invariant = kill.invariant.splitlines()[0].replace("|", "\\|")[:110] if kill else ""
            if kill:
                row = f"{kill.schedules} | {kill.family}: {invariant}"
            else:
                row = f"- | {self._unit_tests.get(name, 'not found')}"
            yield f"| {bug.sentence} | {bug.source} | {row} |"

    def runs_table(self) -> Iterable[str]:
        """One row per core that was run."""
        acknowledged, recovery = self._columns
        yield (
            "| commit | schedules | seeds | events | events/s | leaders "
            f"| {acknowledged} | {recovery} | violations |"
        )
        yield "|---" * 9 + "|"
        lines = self.runs()
        for core in dict.fromkeys(line["core"] for line in lines):
            of_core = [line for line in lines if line["core"] == core]
            good = [line for line in of_core if "violation" not in line]
            seconds = sum(line["seconds"] for line in good) or 1.0
            events = sum(line["events"] for line in good)
            p99 = sorted(line["p99"] for line in good) or [0]
            first, last = (
                f(line[key] for line in of_core) for f, key in ((min, "first"), (max, "last"))
            )
            schedules, leaders, acked = (
                sum(line[name] for line in good) for name in ("schedules", "leaders", "acked")
            )
            yield (
                f"| {of_core[-1]['commit']} | {schedules} | {first} to {last - 1} | {events} "
                f"| {events / seconds:.0f} | {leaders} | {acked} "
                f"| {p99[0]} to {p99[-1]} | {len(of_core) - len(good)} |"
            )

    def write_page(self) -> None:
        """Replace the tables between their marks in the page."""
        text = self._page.read_text(encoding="utf-8")
        tables = zip(self._marks, (self.mutants_table(), self.runs_table()), strict=True)
        for mark, table in tables:
            begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
            head, _, rest = text.partition(begin)
            _, _, tail = rest.partition(end)
            text = head + begin + "\n".join(table) + "\n" + end + tail
        self._page.write_text(text, encoding="utf-8")

    def main(self, arguments: list[str]) -> int:
        """Run the command line: ``FIRST LAST`` or ``--docs``."""
        if arguments == ["--docs"]:
            self.write_page()
            return 0
        return self.run(int(arguments[0]), int(arguments[1]))


def summary(tally: Tally) -> dict[str, Any]:
    """The part of a line that a run gives."""
    return {
        "schedules": tally.schedules,
        "events": tally.events,
        "acked": tally.acked,
        "leaders": tally.leaders,
        "seconds": round(tally.seconds, 1),
        "p50": round(tally.recovery(0.5), 2),
        "p99": round(tally.recovery(0.99), 2),
    }


QUORUMS: Final = Campaign(
    power.KILLS,
    ["gateway/quorum"],
    Path(__file__).with_name("runs.jsonl"),
    "docs/simulation.md",
    ("mutants", "runs"),
)

if __name__ == "__main__":
    sys.exit(QUORUMS.main(sys.argv[1:]))
