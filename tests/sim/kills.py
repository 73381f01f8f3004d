"""Finds the schedule that each bug makes fail, and keeps the result in a file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.sim.mutants import Mutant
from tests.sim.schedule import Failed

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


#: A bug raises one of these when the code that it patches has changed: nothing was found.
_STALE: Final = ("0: AttributeError", "0: ImportError", "0: NameError", "0: TypeError")


def require_bug(failed: Failed) -> None:
    """Raises AssertionError where the schedule failed because the bug no longer fits the core."""
    assert not failed.invariant.startswith(_STALE), f"the bug does not fit the core: {failed}"


class Kills:
    """The kills of ``bugs``, kept in ``path``. ``run(seed, family)`` runs a schedule."""

    def __init__(self, path: Path, bugs: Mapping[str, Mutant], run: Callable[..., Any]) -> None:
        self._path, self.bugs, self.run = path, bugs, run

    def find(self, name: str, schedules: int = SCHEDULES_MAX, first: int = 0) -> Kill | None:
        """The first schedule that the bug makes fail."""
        with self.bugs[name].make():
            for seed in range(first, schedules):
                try:
                    self.run(seed)
                except Failed as failed:
                    require_bug(failed)
                    return Kill(seed, failed.family, failed.invariant)
        return None

    def known(self) -> dict[str, Kill]:
        """The kills of the file, by the bug's name."""
        if not self._path.exists():
            return {}
        found = json.loads(self._path.read_text(encoding="utf-8"))
        return {name: Kill(**kill) for name, kill in found.items()}

    def measure(self, names: list[str]) -> int:
        """Find each of ``names``, by default every bug, and write the file. Returns 1 if one was
        not found.
        """
        kills = {name: kill for name, kill in self.known().items() if name in self.bugs}
        alive = []
        for name in names or list(self.bugs):
            begun = time.perf_counter()
            kill = self.find(name)
            if kill is None:
                alive.append(name)
                kills.pop(name, None)
            else:
                kills[name] = kill
            found = kill.schedules if kill else "alive"
            print(
                f"{name}: {found} schedules, {time.perf_counter() - begun:.1f} s, {kill}",
                flush=True,
            )
            ordered = {one: kills[one]._asdict() for one in self.bugs if one in kills}
            self._path.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        if alive:
            print("alive:", *alive)
        return 1 if alive else 0
