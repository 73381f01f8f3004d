"""Classic consumer groups as a pure machine: events in, ordered effects out. No clock, no dice, no
files, no sockets.

``GroupCoordinator.handle(event, token, moment)`` gives the effects of one request, ``on_timer``
those of time that passed. Semantics are those of Kafka 4.x's classic path
(``GroupMetadataManager``, ``ClassicGroup``, ``OffsetMetadataManager``); docs of each module name
where it differs and why.
"""

from gateway.groups.coordinator import GroupCoordinator
from gateway.groups.effects import (
    Answer,
    Asked,
    Effect,
    Failure,
    LimitExceeded,
    Moment,
    Persist,
    Record,
)
from gateway.groups.errors import Error
from gateway.groups.settings import Settings
from gateway.groups.usage import Held, Usage

__all__ = [
    "Answer", "Asked", "Effect", "Error", "Failure", "GroupCoordinator", "Held", "LimitExceeded",
    "Moment", "Persist", "Record",
    "Settings", "Usage",
]  # fmt: skip
