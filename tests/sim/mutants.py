"""Seeded bugs of the quorum's core.

Each is a plausible mistake. Most are known from Kafka's history, from the text of KIP-595, or from
other implementations of Raft. The bugs are in ``mutants_*.py``, by the part of the core that they
change.
"""

from __future__ import annotations

from typing import Final

from tests.sim import (
    mutants_elections,
    mutants_epochs,
    mutants_leading,
    mutants_log,
    mutants_relays,
    mutants_upgrading,
)
from tests.sim.mutant_registry import Mutants

MUTANTS: Final = Mutants(
    mutants_elections.MUTANTS,
    mutants_epochs.MUTANTS,
    mutants_leading.MUTANTS,
    mutants_log.MUTANTS,
    mutants_relays.MUTANTS,
    mutants_upgrading.MUTANTS,
)
