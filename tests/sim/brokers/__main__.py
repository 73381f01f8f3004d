"""Replay a schedule of brokers (``python -m tests.sim.brokers 42``), run many (``0-1999``), or
reduce a failing one (``--shrink``).
"""

from __future__ import annotations

import sys

from tests.sim.brokers.mutants import MUTANTS
from tests.sim.brokers.schedules import BROKERS
from tests.sim.command_line import main

if __name__ == "__main__":
    sys.exit(main(BROKERS, MUTANTS, __doc__ or ""))
