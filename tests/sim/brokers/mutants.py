"""Registry of the bugs that are put into the brokers' cores one at a time, to measure the
simulation.

Most are known from Kafka's history or from the texts of KIP-101, 320, 497, 841, 890, 903 and 966.
Some are in what is around a core, which the simulation does in place of the server: their sentences
say what a server with the bug does. The bugs are in ``mutants_*.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from tests.sim.mutants import Make, Mutant

MUTANTS: Final[dict[str, Mutant]] = {}


def mutant(source: str) -> Callable[[Make], Make]:
    """Register a bug; its docstring becomes its sentence."""

    def register(make: Make) -> Make:
        assert make.__doc__, make
        MUTANTS[make.__name__] = Mutant(make, source, " ".join(make.__doc__.split()))
        return make

    return register


def put_in(name: str | None) -> AbstractContextManager[object]:
    """The cores with that bug while the context lasts; without one for None."""
    return MUTANTS[name].make() if name else contextlib.nullcontext()


from tests.sim.brokers import (  # noqa: E402 - each registers its bugs
    mutants_controller,  # noqa: F401
    mutants_following,  # noqa: F401
    mutants_leading,  # noqa: F401
    mutants_producers,  # noqa: F401
)
