"""Run many schedules (``python -m tests.sim.campaign 0 100000``) and keep the results.

Each thousand seeds are a line of ``runs.jsonl``: the core (commit, and a hash of its files), the
seeds, and the result. A thousand that was run with the same core is not run again. ``python -m
tests.sim.campaign --docs`` writes the tables of ``docs/simulation.md``.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.sim import mutants, power
from tests.sim.schedule import Failed, Tally, run_many

ROOT: Final = Path(__file__).resolve().parent.parent.parent
RUNS: Final = Path(__file__).with_name("runs.jsonl")
PAGE: Final = ROOT / "docs/simulation.md"
_CHUNK: Final = 1000


def core_hash() -> str:
    """Identify the code under test: the files of the core and of the simulation.

    Results of another core, or of another simulation, say nothing about this one.
    """
    files = sorted([*(ROOT / "gateway/quorum").rglob("*.py"), *Path(__file__).parent.glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def runs() -> list[dict[str, Any]]:
    """All lines of ``runs.jsonl``."""
    return (
        [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()]
        if RUNS.exists()
        else []
    )


def campaign(first: int, last: int) -> int:
    """Run the seeds from ``first`` to below ``last`` that were not run with this core.

    Return 1 if a schedule failed, else 0.
    """
    core = core_hash()
    done = {line["first"] for line in runs() if line["core"] == core}
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
            tally = run_many(range(begin, line["last"]))
            line |= summary(tally)
        except Failed as failed:
            failures += 1
            line["violation"] = str(failed)
        with RUNS.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")
        print(line.get("violation") or f"{begin}: {tally}", flush=True)
    return 1 if failures else 0


def summary(tally: Tally) -> dict[str, Any]:
    return {
        "schedules": tally.schedules,
        "events": tally.events,
        "acked": tally.acked,
        "leaders": tally.leaders,
        "seconds": round(tally.seconds, 1),
        "p50": round(tally.recovery(0.5), 2),
        "p99": round(tally.recovery(0.99), 2),
    }


def mutants_table() -> Iterable[str]:
    """One row per seeded bug."""
    kills = power.known()
    found = sorted(kill.schedules for kill in kills.values())
    median, most = statistics.median(found or [0]), max(found or [0])
    yield (
        f"{len(kills)} of {len(mutants.MUTANTS)} killed; "
        f"schedules needed: median {median:g}, most {most}."
    )
    yield ""
    yield "| bug | from | schedules | found by |"
    yield "|---|---|---|---|"
    for name, bug in mutants.MUTANTS.items():
        kill = kills.get(name)
        invariant = kill.invariant.splitlines()[0].replace("|", "\\|")[:110] if kill else ""
        row = f"{kill.schedules} | {kill.family}: {invariant}" if kill else "- | not found"
        yield f"| {bug.sentence} | {bug.source} | {row} |"


def runs_table() -> Iterable[str]:
    """One row per core that was run."""
    yield (
        "| commit | schedules | seeds | events | events/s | leaders | proposals acknowledged "
        "| from healing to a commit, p99 of each thousand, s | violations |"
    )
    yield "|---" * 9 + "|"
    lines = runs()
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


def write_page() -> None:
    """Replace the tables between their marks in the page."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, table in (("mutants", mutants_table()), ("runs", runs_table())):
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = head + begin + "\n".join(table) + "\n" + end + tail
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--docs"]:
        write_page()
        sys.exit(0)
    sys.exit(campaign(int(sys.argv[1]), int(sys.argv[2])))
