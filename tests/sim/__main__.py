"""Replay a schedule (``python -m tests.sim 42``), run many (``0-1999``), or reduce a failing one
(``--shrink``).
"""

from __future__ import annotations

import sys

from tests.sim import mutants
from tests.sim.command_line import main
from tests.sim.scenario import SCENARIOS
from tests.sim.schedule import run_many, world_of

if __name__ == "__main__":
    bugs = mutants.MUTANTS
    sys.exit(main("tests.sim", __doc__ or "", SCENARIOS, bugs, run_many, world_of))
