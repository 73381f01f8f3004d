"""Bugs to be put into the core one at a time: what the simulation is worth is how soon it finds
each.

Each is a change that a tired person could make, most of them known from Kafka's own history, from
the text of KIP-595, or from the ways in which Raft was got wrong before. The bugs themselves are
next door, by the part of the core that they are in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest import mock

Make = Callable[[], AbstractContextManager[Any]]


class Mutant(NamedTuple):
    """``source``: where such a bug is known from. ``sentence``: what is wrong."""

    make: Make
    source: str
    sentence: str


MUTANTS: Final[dict[str, Mutant]] = {}


def mutant(source: str) -> Callable[[Make], Make]:
    """Add a bug to the list; its docstring says what it is."""

    def register(make: Make) -> Make:
        assert make.__doc__, make
        MUTANTS[make.__name__] = Mutant(make, source, make.__doc__)
        return make

    return register


def patched(owner: Any, **new: Any) -> AbstractContextManager[Any]:
    """``owner`` with other attributes, for a while."""
    patch: AbstractContextManager[Any] = mock.patch.multiple(owner, **new)
    return patch


@contextlib.contextmanager
def together(*contexts: AbstractContextManager[Any]) -> Any:
    """All of them at once."""
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


def put_in(name: str | None) -> AbstractContextManager[Any]:
    """The core with that bug, for as long as the context lasts; with none for None."""
    return MUTANTS[name].make() if name else contextlib.nullcontext()


from tests.sim import mutants_elections, mutants_leading, mutants_log, mutants_upgrading  # noqa: E402, F401 - they register here
