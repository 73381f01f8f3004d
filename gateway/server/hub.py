"""What all connections of the server share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.server.counts import Counts

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.server.dispatch import Dispatcher
    from gateway.server.guard import Guard
    from gateway.server.logs import Reports
    from gateway.server.purgatory import Purgatory


@dataclass(slots=True)
class Memory:
    """Bytes that all connections hold: unfinished requests and unsent answers."""

    held: int = 0


@dataclass(frozen=True, slots=True)
class Hub:
    """What all connections share."""

    config: Config
    dispatcher: Dispatcher
    purgatory: Purgatory
    reports: Reports
    memory: Memory = field(default_factory=Memory)
    counts: Counts = field(default_factory=Counts)
    guards: Mapping[str, Guard] = field(default_factory=dict)  #: of listeners that are not PLAINTEXT
