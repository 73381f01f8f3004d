"""Compares kwire with a peer in rounds: both take turns, so that a slow phase of the machine slows
both, and each value is the median of the rounds.

It knows no request, and starts nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

ROUNDS = 3
#: Seconds of load before a measurement, and before the first of a kind: the JVM compiles meanwhile.
_WARM_UP_S, _FIRST_WARM_UP_S = 0.5, 4.0


class Value(NamedTuple):
    """A measurement: processor time in the row's unit, and requests a second."""

    cost: float
    rate: float


class Named(Protocol):
    """A server or a cluster of servers."""

    @property
    def name(self) -> str: ...


Measured = TypeVar("Measured", bound=Named)


def row(
    both: Sequence[Named], what: str, unit: str, own: float, peer: float, **more: Any
) -> dict[str, Any]:
    """Return the row of ``both``, kwire and the peer, whose values ``own`` and ``peer`` are the
    better the lower they are.
    """
    return {
        "what": what,
        "unit": unit,
        "kwire": own,
        "peer": both[1].name,
        "peer_value": peer,
        "ratio": peer / own,
        **more,
    }


def compared(
    both: Sequence[Measured],
    what: str,
    unit: str,
    measure: Callable[[Measured, float], Value],
    *,
    rounds: int = ROUNDS,
    first_warm_up_s: float = _FIRST_WARM_UP_S,
) -> dict[str, Any]:
    """Return the row of what :func:`medians` measures."""
    own, peer = medians(both, measure, rounds=rounds, first_warm_up_s=first_warm_up_s)
    notes = f"throughput {own.rate / peer.rate:.2f} times {both[1].name}'s"
    return row(both, what, unit, own.cost, peer.cost, notes=notes)


def medians(
    both: Sequence[Measured],
    measure: Callable[[Measured, float], Value],
    *,
    rounds: int = ROUNDS,
    first_warm_up_s: float = _FIRST_WARM_UP_S,
) -> tuple[Value, Value]:
    """Return the values of ``both``, kwire and the peer. ``measure`` gets the seconds of load that
    are to come before it counts.
    """
    for one in both:
        measure(one, first_warm_up_s)
    values: list[list[Value]] = [[] for _ in both]
    for _ in range(rounds):
        for one, found in zip(both, values, strict=True):
            found.append(measure(one, min(_WARM_UP_S, first_warm_up_s)))
    own, peer = (
        Value(*(statistics.median(column) for column in zip(*found, strict=True)))
        for found in values
    )
    return own, peer
