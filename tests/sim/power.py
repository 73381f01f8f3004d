"""Measures how many schedules each seeded bug needs: ``python -m tests.sim.power [NAME ...]``
rewrites ``kills.json``.

Schedules are tried from seed 0 on, as in every test run, until one fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.sim.kills import Kills
from tests.sim.mutants import MUTANTS
from tests.sim.schedules import QUORUMS

KILLS: Final = Kills(Path(__file__).with_name("kills.json"), MUTANTS, QUORUMS)

if __name__ == "__main__":
    sys.exit(KILLS.measure(sys.argv[1:]))
