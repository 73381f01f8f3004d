"""The command line that replays, runs and reduces schedules."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.sim.history import Violation
from tests.sim.mutants import Mutant
from tests.sim.schedule import Failed, Tally, shrink


def main(
    module: str,
    description: str,
    families: Collection[str],
    bugs: Mapping[str, Mutant],
    run_many: Callable[..., Tally],
    world_of: Callable[..., Any],
) -> int:
    """Run ``python -m MODULE``: ``run_many`` and ``world_of`` are those of its schedules."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("seeds", help="one seed, or FIRST-LAST")
    parser.add_argument(
        "--family", choices=sorted(families), help="instead of the one that the seed selects"
    )
    parser.add_argument("--mutant", choices=sorted(bugs), help="with this seeded bug in the core")
    parser.add_argument("--shrink", action="store_true", help="find the faults that are needed")
    parser.add_argument("--lines", type=int, default=60, help="lines of the trace's end")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    bug = bugs[options.mutant].make() if options.mutant else contextlib.nullcontext()
    with bug:
        if last:
            return _many(range(int(first), int(last) + 1), options.family, run_many)
        return _one(int(first), options, world_of)


def _many(seeds: range, family: str | None, run_many: Callable[..., Tally]) -> int:
    try:
        print(run_many(seeds, family))
    except Failed as failed:
        print(failed)
        return 1
    return 0


def _one(seed: int, options: argparse.Namespace, world_of: Callable[..., Any]) -> int:
    only = (
        shrink(seed, options.family, lambda text: print(text, file=sys.stderr), world_of)
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
