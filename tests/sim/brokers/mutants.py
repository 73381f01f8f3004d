"""Seeded bugs of the brokers' cores.

Most are known from Kafka's history or from the texts of KIP-101, 320, 497, 841, 890, 903 and 966.
Some are in what is around a core, which the simulation does in place of the server: their sentences
say what a server with the bug does. The bugs are in ``mutants_*.py``.
"""

from __future__ import annotations

from typing import Final

from tests.sim.brokers import (
    mutants_controller,
    mutants_following,
    mutants_leading,
    mutants_producers,
)
from tests.sim.mutant_registry import Mutants

MUTANTS: Final = Mutants(
    mutants_controller.MUTANTS,
    mutants_following.MUTANTS,
    mutants_leading.MUTANTS,
    mutants_producers.MUTANTS,
)
