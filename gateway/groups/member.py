"""Holds one member of a classic group: its subscription, timeouts and unanswered requests.

It does not know its group. Follows Kafka's ``ClassicGroupMember``.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from gateway.groups.effects import PendingRequest
from gateway.groups.events import Protocol

#: Memory of a member besides the bytes that it sent, about: objects, timers, dict entries.
OVERHEAD: Final = 1000
#: The same for one protocol that the member supports: a tuple, two objects, a counter.
_PROTOCOL_OVERHEAD: Final = 200


@dataclass(slots=True)
class Member:
    """A member. ``awaiting_join`` and ``awaiting_sync`` are its requests that have no answer yet.

    ``is_new`` from joining until the first JoinGroup answer: the member does not know its id yet,
    so it cannot heartbeat.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    owner: str = ""  # the principal or address that is charged for its memory
    assignment: bytes = b""
    awaiting_join: PendingRequest | None = None
    awaiting_sync: PendingRequest | None = None
    is_new: bool = False

    @property
    def size(self) -> int:
        """Bytes that this member takes in memory (about)."""
        names = len(self.member_id) + len(self.client_id) + len(self.instance_id or "")
        return OVERHEAD + names + len(self.assignment) + size_of(self.protocols)

    def metadata(self, protocol_name: str) -> bytes:
        """Return the metadata that the member sent for ``protocol_name``, which it supports."""
        return next(
            protocol.metadata for protocol in self.protocols if protocol.name == protocol_name
        )

    def vote(self, candidates: Container[str]) -> str:
        """The first of its protocols, in its order of preference, among the candidates."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    @property
    def is_excused(self) -> bool:
        """True if the member waits for an answer, so that no heartbeat is due
        (``hasSatisfiedHeartbeat``).
        """
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )


def size_of(protocols: tuple[Protocol, ...]) -> int:
    """Bytes of these protocols (about)."""
    return sum(
        _PROTOCOL_OVERHEAD + len(protocol.name) + len(protocol.metadata) for protocol in protocols
    )
