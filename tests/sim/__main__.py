"""``python -m tests.sim 42``: replay a schedule; ``0-1999``: many; ``--shrink``: make a failing one
smaller.
"""

from __future__ import annotations

import argparse
import sys

from tests.sim import mutants
from tests.sim.invariants import Violation
from tests.sim.scenarios import SCENARIOS
from tests.sim.schedule import Failed, run_many, shrink, world_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", help="one seed, or FIRST-LAST")
    parser.add_argument(
        "--family", choices=sorted(SCENARIOS), help="not the one that the seed belongs to"
    )
    parser.add_argument(
        "--mutant", choices=sorted(mutants.MUTANTS), help="with this bug in the core"
    )
    parser.add_argument("--shrink", action="store_true", help="find the faults that it takes")
    parser.add_argument("--lines", type=int, default=60, help="lines of what happened last")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    with mutants.put_in(asked.mutant):
        if last:
            return _many(range(int(first), int(last) + 1), asked.family)
        return _one(int(first), asked)


def _many(seeds: range, family: str | None) -> int:
    try:
        print(run_many(seeds, family))
    except Failed as failed:
        print(failed)
        return 1
    return 0


def _one(seed: int, asked: argparse.Namespace) -> int:
    only = (
        shrink(seed, asked.family, lambda text: print(text, file=sys.stderr))
        if asked.shrink
        else None
    )
    world = world_of(seed, asked.family, only=only, noting=True)
    try:
        outcome = world.run()
    except Violation as violation:
        print("\n".join(world.notes[-asked.lines :]))
        print(f"seed {seed}, {world.scenario.name}: {violation}")
        if only is not None:
            print("faults:", *only, sep="\n  ")
        return 1
    except Exception:
        print("\n".join(world.notes[-asked.lines :]))
        raise
    print(f"seed {seed}, {world.scenario.name}: {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
