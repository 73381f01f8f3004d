"""Defines the effects of the group coordinator, and the time that it is given with each event.

The driver carries effects out in order: it writes records, sends results and reports failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.groups.events import Event, Result

#: One record of the coordinator's log: Kafka's key and value with their version prefixes; a value
#: of None deletes.
Record = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a step happens, and its luck.

    ``now``: monotonic seconds, for timers. ``wall_ms``: milliseconds since the epoch, for what is
    kept. ``random_bytes``: 16 random bytes, from which at most one member id is made.
    """

    now: float
    wall_ms: int
    random_bytes: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class Asked:
    """An event, and the token to answer it with; the coordinator never looks into the token."""

    event: Event
    token: Any


@dataclass(frozen=True, slots=True)
class Persist:
    """Write ``records`` before any answer whose ``after`` is ``number`` or more. Numbers rise by
    one.

    ``owners``: key of a record -> who is charged for it, to be given back to
    ``GroupCoordinator.load``.
    """

    number: int
    records: tuple[Record, ...]
    owners: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """``asked`` is answered with ``result``, once the Persist of number ``after`` is on disk (0: at
    once).

    If it never gets there, the answer is ``asked.event.failed(...)`` instead.
    """

    asked: Asked
    result: Result
    after: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """The coordinator raised ``error`` while it carried out ``what``, an event or a timer of
    ``group_id``: a bug.

    It cost that one request, whose answer is among the effects, and where members may have changed
    those of that group: they have to join again. All other groups go on.
    """

    what: str
    group_id: str
    error: Exception


@dataclass(frozen=True, slots=True)
class LimitExceeded:
    """A request of ``owner`` on ``group_id`` was refused because of ``limit``, a key of the
    configuration.
    """

    limit: str
    owner: str
    group_id: str


Effect = Persist | Answer | Failure | LimitExceeded
