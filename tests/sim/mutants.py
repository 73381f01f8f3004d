"""Registry of seeded bugs, which are put into the core one at a time to measure the simulation.

Each is a plausible mistake. Most are known from Kafka's history, from the text of KIP-595, or from
other implementations of Raft. The bugs are in ``mutants_*.py``, by the part of the core that they
change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest import mock

Make = Callable[[], AbstractContextManager[Any]]


class Mutant(NamedTuple):
    """``source``: where such a bug is known from. ``sentence``: the wrong behaviour."""

    make: Make
    source: str
    sentence: str


MUTANTS: Final[dict[str, Mutant]] = {}


def mutant(source: str) -> Callable[[Make], Make]:
    """Register a bug; its docstring becomes its sentence."""

    def register(make: Make) -> Make:
        assert make.__doc__, make
        MUTANTS[make.__name__] = Mutant(make, source, " ".join(make.__doc__.split()))
        return make

    return register


def patched(owner: Any, **new: Any) -> AbstractContextManager[Any]:
    """``owner`` with other attributes while the context lasts."""
    patch: AbstractContextManager[Any] = mock.patch.multiple(owner, **new)
    return patch


@contextlib.contextmanager
def together(*contexts: AbstractContextManager[Any]) -> Any:
    """Enter all ``contexts`` at once."""
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


def put_in(name: str | None) -> AbstractContextManager[Any]:
    """The core with that bug while the context lasts; without one for None."""
    return MUTANTS[name].make() if name else contextlib.nullcontext()


from tests.sim import (  # noqa: E402 - each registers its bugs
    mutants_elections,  # noqa: F401
    mutants_epochs,  # noqa: F401
    mutants_leading,  # noqa: F401
    mutants_log,  # noqa: F401
    mutants_relays,  # noqa: F401
    mutants_upgrading,  # noqa: F401
)
