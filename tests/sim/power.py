"""Measures how many schedules each seeded bug needs: ``python -m tests.sim.power [NAME ...]``
rewrites ``kills.json``.

Schedules are tried from seed 0 on, as in every test run, until one fails.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.sim import mutants
from tests.sim.schedule import Failed, run

KILLS: Final = Path(__file__).with_name("kills.json")
#: A bug that this many schedules do not find counts as not found.
SCHEDULES_MAX: Final = 10_000


class Kill(NamedTuple):
    """The first schedule that fails with a bug: its seed and family, and the invariant that it
    breaks.
    """

    seed: int
    family: str
    invariant: str

    @property
    def schedules(self) -> int:
        """The number of schedules that were run until then."""
        return self.seed + 1


#: A seeded bug raises one of these when the code that it patches has changed: nothing was found.
_STALE: Final = ("0: AttributeError", "0: ImportError", "0: NameError", "0: TypeError")


def require_bug(failed: Failed) -> None:
    """Raises AssertionError where the schedule failed because the bug no longer fits the core."""
    assert not failed.invariant.startswith(_STALE), f"the bug does not fit the core: {failed}"


def find(name: str, schedules: int = SCHEDULES_MAX, first: int = 0) -> Kill | None:
    """The first schedule that the bug makes fail."""
    with mutants.put_in(name):
        for seed in range(first, schedules):
            try:
                run(seed)
            except Failed as failed:
                require_bug(failed)
                return Kill(seed, failed.family, failed.invariant)
    return None


def known() -> dict[str, Kill]:
    """The kills of ``kills.json``, by the bug's name."""
    if not KILLS.exists():
        return {}
    return {
        name: Kill(**kill) for name, kill in json.loads(KILLS.read_text(encoding="utf-8")).items()
    }


def main(names: list[str]) -> int:
    kills = {name: kill for name, kill in known().items() if name in mutants.MUTANTS}
    alive = []
    for name in names or list(mutants.MUTANTS):
        begun = time.perf_counter()
        kill = find(name)
        if kill is None:
            alive.append(name)
            kills.pop(name, None)
        else:
            kills[name] = kill
        took = (
            f"{kill.schedules if kill else 'alive'} schedules, {time.perf_counter() - begun:.1f} s"
        )
        print(f"{name}: {took}, {kill}", flush=True)
        ordered = {one: kills[one]._asdict() for one in mutants.MUTANTS if one in kills}
        KILLS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    if alive:
        print("alive:", *alive)
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
