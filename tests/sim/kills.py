"""Finds the schedule that each bug makes fail, and keeps the result in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.sim.mutant_registry import Mutants
from tests.sim.schedule import Failed, Schedules

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
    """The kills of ``bugs`` by ``schedules``, kept in ``path``."""

    def __init__(self, path: Path, bugs: Mutants, schedules: Schedules) -> None:
        self._path, self.bugs, self.schedules = path, bugs, schedules
        self._sound: set[tuple[int, str]] = set()  #: schedules of bugs that succeed without one

    def find(self, name: str, schedules: int = SCHEDULES_MAX, first: int = 0) -> Kill | None:
        """The first schedule that the bug makes fail."""
        with self.bugs[name].make():
            for seed in range(first, schedules):
                try:
                    self.schedules.run(seed)
                except Failed as failed:
                    require_bug(failed)
                    return Kill(seed, failed.family, failed.invariant)
        return None

    def check(self, name: str, most: int) -> None:
        """Raises AssertionError if neither the bug's schedule of the file nor one of the first
        ``most`` fails with the bug, or if the schedule of the file fails without it.
        """
        kill = self._again(name)
        if kill is None:
            sentence = self.bugs[name].sentence
            assert self.find(name, most), f"{most} schedules do not find it: {sentence}"
            return
        if (kill.seed, kill.family) not in self._sound:
            self.schedules.run(kill.seed, kill.family)
            self._sound.add((kill.seed, kill.family))

    def _again(self, name: str) -> Kill | None:
        """The kill of the file, if its schedule still fails with the bug."""
        kill = self.known().get(name)
        if kill is not None:
            with self.bugs.put_in(name):
                try:
                    self.schedules.run(kill.seed, kill.family)
                except Failed as failed:
                    require_bug(failed)
                    return Kill(kill.seed, failed.family, failed.invariant)
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
            # A longer campaign may have found what few schedules do.
            kill = self.find(name) or self._again(name)
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
