"""Checks the invariants after every event, each in constant time.

The methods are called by the node, the network and the world at the moment that their names say. A
text begins with the number of its invariant in ``docs/simulation.md``.
"""

from __future__ import annotations

from tests.sim.invariants_commits import CommitInvariants
from tests.sim.invariants_elections import ElectionInvariants
from tests.sim.invariants_log import LogInvariants


class Checker(LogInvariants, ElectionInvariants, CommitInvariants):
    """All invariants over one history."""
