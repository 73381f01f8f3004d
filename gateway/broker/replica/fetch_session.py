"""Counts the requests of a Fetch session on the side of the one that fetches (KIP-227).

It does not know what is fetched. Source: ``FetchSessionHandler``, ``FetchMetadata``.
"""

from __future__ import annotations

from typing import Final

#: No session.
NO_SESSION: Final = 0
#: The epoch of a request that names all partitions; the leader then opens a session.
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = (1 << 31) - 1


class FetchSession:
    """The session of one connection to a leader. ``id`` and ``epoch`` belong into the next
    request.
    """

    __slots__ = ("epoch", "id")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition, and not only what has changed."""
        return self.epoch == INITIAL_EPOCH

    def answered(self, session_id: int) -> None:
        """The leader has answered the last request, in the session ``session_id`` or without
        one.
        """
        if session_id == NO_SESSION:
            self.id, self.epoch = NO_SESSION, INITIAL_EPOCH
        elif self.is_full:
            self.id, self.epoch = session_id, INITIAL_EPOCH + 1
        else:
            # The initial epoch does not come back.
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def lost(self) -> None:
        """The leader does not know the session any more."""
        self.id, self.epoch = NO_SESSION, INITIAL_EPOCH

    def restart(self) -> None:
        """The answer to the last request is not known, or was an error: the next one closes the
        session, if there is one, and opens another.
        """
        self.epoch = INITIAL_EPOCH
