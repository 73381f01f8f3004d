"""Registries of seeded bugs, which are put into a core one at a time to measure a simulation.

A module of bugs has a registry of its own; a simulation has one of all its modules.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

Make = Callable[[], AbstractContextManager[Any]]


class Mutant(NamedTuple):
    """``source``: where such a bug is known from. ``sentence``: the wrong behaviour."""

    make: Make
    source: str
    sentence: str


class Mutants(dict[str, Mutant]):
    """Seeded bugs by name, in the order of their registration; those of ``parts`` first."""

    def __init__(self, *parts: Mutants) -> None:
        super().__init__()
        for part in parts:
            self.update(part)

    def register(self, source: str) -> Callable[[Make], Make]:
        """Decorate a function that puts a bug in; its docstring becomes the bug's sentence."""

        def register(make: Make) -> Make:
            assert make.__doc__, make
            self[make.__name__] = Mutant(make, source, " ".join(make.__doc__.split()))
            return make

        return register

    def put_in(self, name: str | None) -> AbstractContextManager[Any]:
        """The core with that bug while the context lasts; without one for None."""
        return self[name].make() if name else contextlib.nullcontext()
