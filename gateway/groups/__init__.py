"""Implements classic consumer groups as a state machine: events in, ordered effects out.

``GroupCoordinator.handle(event, token, moment)`` returns the effects of one request, ``on_timer``
those of timers that are due. The package reads no clock and no random numbers, and does no I/O: its
driver (``gateway.server.groups.group_driver``) does. Follows the classic path of Kafka 4.x
(``GroupMetadataManager``, ``ClassicGroup``, ``OffsetMetadataManager``); a docstring says where it
differs, and why.
"""

from gateway.groups.coordinator import GroupCoordinator
from gateway.groups.effects import (
    Answer,
    Effect,
    EventTime,
    Failure,
    LimitExceeded,
    PendingRequest,
    Persist,
    Record,
)
from gateway.groups.settings import Settings
from gateway.groups.usage import MemoryUse, Usage

__all__ = [
    "Answer",
    "Effect",
    "EventTime",
    "Failure",
    "GroupCoordinator",
    "LimitExceeded",
    "MemoryUse",
    "PendingRequest",
    "Persist",
    "Record",
    "Settings",
    "Usage",
]  # fmt: skip
