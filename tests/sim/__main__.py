"""Replay a schedule (``python -m tests.sim 42``), run many (``0-1999``), or reduce a failing one
(``--shrink``).
"""

from __future__ import annotations

import argparse
import sys

from tests.sim import mutants
from tests.sim.history import Violation
from tests.sim.scenario import SCENARIOS
from tests.sim.schedule import Failed, run_many, shrink, world_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", help="one seed, or FIRST-LAST")
    parser.add_argument(
        "--family", choices=sorted(SCENARIOS), help="instead of the one that the seed selects"
    )
    parser.add_argument(
        "--mutant", choices=sorted(mutants.MUTANTS), help="with this seeded bug in the core"
    )
    parser.add_argument("--shrink", action="store_true", help="find the faults that are needed")
    parser.add_argument("--lines", type=int, default=60, help="lines of the trace's end")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    with mutants.put_in(options.mutant):
        if last:
            return _many(range(int(first), int(last) + 1), options.family)
        return _one(int(first), options)


def _many(seeds: range, family: str | None) -> int:
    try:
        print(run_many(seeds, family))
    except Failed as failed:
        print(failed)
        return 1
    return 0


def _one(seed: int, options: argparse.Namespace) -> int:
    only = (
        shrink(seed, options.family, lambda text: print(text, file=sys.stderr))
        if options.shrink
        else None
    )
    world = world_of(seed, options.family, only=only, noting=True)
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


if __name__ == "__main__":
    sys.exit(main())
