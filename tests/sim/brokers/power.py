"""Measures how many schedules each bug needs: ``python -m tests.sim.brokers.power [NAME ...]``
rewrites ``kills.json``.

Schedules are tried from seed 0 on until one fails.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.sim.brokers.mutants import MUTANTS
from tests.sim.brokers.schedules import BROKERS
from tests.sim.kills import Kills

KILLS: Final = Kills(Path(__file__).with_name("kills.json"), MUTANTS, BROKERS)

if __name__ == "__main__":
    sys.exit(KILLS.measure(sys.argv[1:]))
