"""Runs schedules of brokers and keeps the results in ``runs.jsonl``: ``python -m
tests.sim.brokers.campaign 0 5000``. With ``--docs`` it writes the tables of
``docs/broker-simulation.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.sim.brokers import power
from tests.sim.brokers.unit_tests import UNIT_TESTS
from tests.sim.campaign import Campaign

BROKERS: Final = Campaign(
    power.KILLS,
    ["gateway/broker", "gateway/controller"],
    Path(__file__).with_name("runs.jsonl"),
    "docs/broker-simulation.md",
    ("mutants of brokers", "runs of brokers"),
    ("batches acknowledged", "from healing to all in sync, p99 of each line of results, s"),
    {name: str(test) for name, test in UNIT_TESTS.items()},
)

if __name__ == "__main__":
    sys.exit(BROKERS.main(sys.argv[1:]))
