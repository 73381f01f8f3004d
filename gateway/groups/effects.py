"""Defines the effects of the group coordinator, and the time and random bytes that an event
carries.

The driver carries effects out in order: it writes records, sends results and reports failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.groups.events import Event, Result

#: One record of the coordinator's log: Kafka's key and value with their version prefixes; a value
#: of None deletes.
Record = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class EventTime:
    """The time of an event, and random bytes for it.

    ``now``: monotonic seconds, for timers. ``wall_ms``: milliseconds since the epoch, for records.
    ``random_bytes``: 16 random bytes, from which the coordinator makes at most one member id.
    """

    now: float
    wall_ms: int
    random_bytes: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """An event and its token. The coordinator passes the token back and never reads it."""

    event: Event
    token: Any


@dataclass(frozen=True, slots=True)
class Persist:
    """Write ``records`` before any answer whose ``after`` is ``number`` or more. Numbers rise by
    one.

    ``owners``: key of a record -> the owner that is charged for it, which the driver gives back to
    ``GroupCoordinator.load``. ``producer``: id and epoch of the producer in whose transaction the
    records are.
    """

    number: int
    records: tuple[Record, ...]
    owners: Mapping[bytes, str] = field(default_factory=dict)
    producer: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer ``asked`` with ``result`` once the Persist of number ``after`` is on disk (0: at
    once).

    If that write fails, the answer is ``asked.event.failed(...)`` instead.
    """

    asked: PendingRequest
    result: Result
    after: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """The coordinator raised ``error`` while it handled ``what``, an event or a timer of
    ``group_id``: a bug.

    The answer to the failed request is among the effects. If members may have changed, the group
    was reset and its members have to join again. Other groups are not affected.
    """

    what: str
    group_id: str
    error: Exception


@dataclass(frozen=True, slots=True)
class LimitExceeded:
    """The coordinator refused a request of ``owner`` on ``group_id`` because of ``limit``, a
    configuration key.
    """

    limit: str
    owner: str
    group_id: str


@dataclass(frozen=True, slots=True)
class GroupConverted:
    """A group with members has changed its protocol: it is of ``type`` now (``Group.type``)."""

    group_id: str
    type: str


@dataclass(frozen=True, slots=True)
class ResolveRegexes:
    """Compare these expressions of a consumer group with all topics that ``may_describe`` allows,
    and send what they matched as ``RegexesResolved``.
    """

    group_id: str
    regexes: tuple[str, ...]
    may_describe: Callable[[str], bool]


Effect = Persist | Answer | Failure | LimitExceeded | GroupConverted | ResolveRegexes
