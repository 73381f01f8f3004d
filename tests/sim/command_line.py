"""The command line that replays, runs and reduces schedules."""

from __future__ import annotations

import argparse
import sys

from tests.sim.history import Violation
from tests.sim.mutant_registry import Mutants
from tests.sim.schedule import Failed, Schedules


def main(schedules: Schedules, bugs: Mutants, description: str) -> int:
    """Run the program of the schedules; return its exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {schedules.module}", description=description)
    parser.add_argument("seeds", help="one seed, or FIRST-LAST")
    parser.add_argument(
        "--family",
        choices=sorted(schedules.families),
        help="instead of the one that the seed selects",
    )
    parser.add_argument("--mutant", choices=sorted(bugs), help="with this seeded bug in the core")
    parser.add_argument("--shrink", action="store_true", help="find the faults that are needed")
    parser.add_argument("--lines", type=int, default=60, help="lines of the trace's end")
    parser.add_argument("--json", action="store_true", help="the tally of many as JSON")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    with bugs.put_in(options.mutant):
        if last:
            return _many(schedules, range(int(first), int(last) + 1), options)
        return _one(schedules, int(first), options)


def _many(schedules: Schedules, seeds: range, options: argparse.Namespace) -> int:
    try:
        tally = schedules.run_many(seeds, options.family)
        print(tally.as_json() if options.json else tally)
    except Failed as failed:
        print(failed)
        return 1
    return 0


def _one(schedules: Schedules, seed: int, options: argparse.Namespace) -> int:
    only = (
        schedules.shrink(seed, options.family, lambda text: print(text, file=sys.stderr))
        if options.shrink
        else None
    )
    world = schedules.world_of(seed, options.family, only=only, noting=True)
    try:
        outcome = world.run()
    except Violation as violation:
        print("\n".join(world.notes[-options.lines :]))
        print(f"seed {seed}, {world.scenario.name}: {violation}")
        if only is not None:
            print("faults:", *only, sep="\n  ")
        return 1
    except Exception:
        print("\n".join(world.notes[-options.lines :]))
        raise
    print(f"seed {seed}, {world.scenario.name}: {outcome}")
    return 0
