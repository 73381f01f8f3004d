"""Finds what is wrong with a request of a group by itself, before its group is looked for.

Follows the checks of Kafka's ``GroupCoordinatorService``, which stand before it looks for the
partition of the group: such a request has the same error while the group is loaded.
"""

from __future__ import annotations

from typing import Final

from gateway.groups.events import (
    Event,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetDelete,
    Result,
    SyncGroup,
)
from gateway.groups.settings import Settings
from kwire.protocol import ErrorCode

#: Requests that "" as the id of a group is an error of.
_NAMING: Final = (Heartbeat, JoinGroup, SyncGroup, LeaveGroup, OffsetDelete)


def request_fault(event: Event, settings: Settings) -> ErrorCode:
    """Return the error of the request itself, whatever its group; NONE for most."""
    if isinstance(event, _NAMING) and not event.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(event, JoinGroup):
        shortest, longest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not shortest <= event.session_timeout_ms <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def not_handled(event: Event, settings: Settings, error: ErrorCode) -> Result:
    """Return the result of a request whose coordinator is not to be had here because of
    ``error``.
    """
    fault = request_fault(event, settings)
    return event.failed(error if fault is ErrorCode.NONE else fault)
