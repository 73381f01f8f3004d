"""Registry of seeded bugs of kwire's own server, which are put into it one at a time to measure the
rules.

Each is a plausible mistake: a check that is missing, a wrong error code, an offset that is one too
high, a state that does not change. The bugs are in ``mutants_*.py``, by the part of the server that
they change; each names the rule that finds it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from kwire.protocol import ErrorCode
from tests.patches import patched

Make = Callable[[], AbstractContextManager[Any]]


class Mutant(NamedTuple):
    """``rule``: the id of the rule that finds it. ``sentence``: the wrong behaviour. ``waits``: the
    rule waits in vain for what the server should do, and ends by its time. ``at_follower``: the
    rule is about a node that does not lead its quorum.
    """

    make: Make
    rule: str
    sentence: str
    waits: bool
    at_follower: bool


MUTANTS: Final[dict[str, Mutant]] = {}


def mutant(rule: str, *, waits: bool = False, at_follower: bool = False) -> Callable[[Make], Make]:
    """Register a bug; its docstring becomes its sentence."""

    def register(make: Make) -> Make:
        assert make.__doc__ and make.__name__ not in MUTANTS, make.__name__
        sentence = " ".join(make.__doc__.split())
        MUTANTS[make.__name__] = Mutant(make, rule, sentence, waits, at_follower)
        return make

    return register


def wrapped(owner: Any, name: str, change: Callable[..., Any]) -> AbstractContextManager[Any]:
    """``owner`` with ``change(original, ...)`` in place of a function."""
    original = getattr(owner, name)

    # A function again, so that a method is bound to its object.
    @functools.wraps(original)
    def changed(*values: Any, **named: Any) -> Any:
        return change(original, *values, **named)

    return patched(owner, **{name: changed})


def without_error(error: ErrorCode) -> Callable[..., ErrorCode]:
    """A change of a check for :func:`wrapped`: it finds no such error."""

    def check(original: Any, *values: Any) -> ErrorCode:
        found: ErrorCode = original(*values)
        return ErrorCode.NONE if found == error else found

    return check


def put_in(name: str) -> AbstractContextManager[Any]:
    """The server with that bug while the context lasts."""
    return MUTANTS[name].make()


from tests.conformance_faults import (  # noqa: E402 - each registers its bugs
    mutants_brokers,  # noqa: F401
    mutants_followers,  # noqa: F401
    mutants_groups,  # noqa: F401
    mutants_quorum,  # noqa: F401
    mutants_reads,  # noqa: F401
    mutants_topics,  # noqa: F401
)
