"""Replay a schedule (``python -m tests.sim 42``), run many (``0-1999``), or reduce a failing one
(``--shrink``).
"""

from __future__ import annotations

import sys

from tests.sim.command_line import main
from tests.sim.mutants import MUTANTS
from tests.sim.schedules import QUORUMS

if __name__ == "__main__":
    sys.exit(main(QUORUMS, MUTANTS, __doc__ or ""))
