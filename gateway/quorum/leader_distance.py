"""Defines how far from the leader a response was made: by how many relays, and how long ago.

A relay answers with records that it has, also while its own leader is silent, so an answer alone
does not show that the quorum is there. Each relay therefore adds a tagged field (KIP-482) to its
Fetch and FetchSnapshot responses. The age adds up from relay to relay: where gateways follow each
other in a circle it grows with the clock, and all of them become stale and look for a leader. Kafka
has no such field; its nodes skip tagged fields that they do not know.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final, NamedTuple

from gateway.quorum.response_checks import InvalidResponse

#: The number of the tagged field, far above those that Kafka gives out from 0 on.
TAG: Final = 0x6B77
_FIELD: Final = struct.Struct(">Hi")  # relays, ms
_RELAYS_MAX: Final = 0xFFFF
#: The age of a relay that has had no answer since its start, and the largest that fits, ms.
_NEVER: Final = (1 << 31) - 1


class LeaderDistance(NamedTuple):
    """``relays`` between the receiver of a response and the leader; the leader answered the first
    of them ``silent_s`` seconds before the response was made, infinite for never.
    """

    relays: int
    silent_s: float


#: That of a leader's own response.
LEADER: Final = LeaderDistance(0, 0.0)


def read(message: Any) -> LeaderDistance:
    """Return the distance that a response names, LEADER if it names none. Raises InvalidResponse
    for a field of another form.
    """
    for tag, data in message.unknown_tags:
        if tag == TAG:
            if len(data) != _FIELD.size:
                raise InvalidResponse(f"a distance from the leader of {len(data)} bytes")
            relays, silent_ms = _FIELD.unpack(data)
            if relays < 1 or silent_ms < 0:
                raise InvalidResponse(
                    f"a distance of {relays} relays and {silent_ms} ms from the leader"
                )
            return LeaderDistance(relays, math.inf if silent_ms == _NEVER else silent_ms / 1000)
    return LEADER


def write(message: Any, above: LeaderDistance, answered_at: float | None, now: float) -> None:
    """Add the distance of a relay to its response. ``above``: its own distance; ``answered_at``:
    when the leader last answered, in monotonic seconds, None for never.
    """
    silent_ms = _NEVER if answered_at is None else min(round(1000 * (now - answered_at)), _NEVER)
    data = _FIELD.pack(min(above.relays + 1, _RELAYS_MAX), max(0, silent_ms))
    message.unknown_tags = [(TAG, data)]
