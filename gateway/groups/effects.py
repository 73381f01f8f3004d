"""What the machine takes and gives besides the events themselves: the moment of a step, and the two effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.groups.events import Event, Result

#: One record of the coordinator's log: Kafka's key and value with their version prefixes; a value of None deletes.
Record = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a step happens, and its luck.

    ``now``: monotonic seconds, for timers. ``wall_ms``: milliseconds since the epoch, for what is kept. ``dice``: 16 random
    bytes, from which at most one member id is made.
    """

    now: float
    wall_ms: int
    dice: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class Asked:
    """An event with the token of whoever waits for its answer. The machine never looks into the token."""

    event: Event
    token: Any


@dataclass(frozen=True, slots=True)
class Persist:
    """Write ``records`` before any answer whose ``after`` is ``number`` or more. Numbers rise by one."""

    number: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """``asked`` is answered with ``result``, once the Persist of number ``after`` is on disk (0: at once).

    If it never gets there, the answer is ``asked.event.failed(...)`` instead.
    """

    asked: Asked
    result: Result
    after: int = 0


Effect = Persist | Answer
