"""Tracks requests to other nodes: one in flight for each address, a pause after each failure.

A response belongs to the request with its number; late and second responses are discarded. It does
not know the content of requests. Follows ``RequestManager``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from gateway.base.address import Address
from gateway.quorum.backoff import Backoff
from gateway.quorum.effects import Failure

#: Handles a response: (message, version) -> True for success, False to back off, None for neither
#: (the response is ignored, and the address needs no pause).
OnAnswer = Callable[[Any, int], bool | None]
OnFailed = Callable[[Failure], None]

#: Addresses remembered. A quorum has three or five voters; more are named by hostile peers only.
_PEERS_MAX: Final = 64


class Peer:
    """One address. ``number``: of the request in flight, 0 for none. No request goes out before
    ``ready_at``.
    """

    __slots__ = ("address", "backoff", "number", "ready_at", "until")

    def __init__(self, address: Address, backoff: Backoff) -> None:
        self.address = address
        self.backoff = backoff
        self.number = 0
        self.ready_at = -math.inf
        self.until = math.inf  #: when the driver must have reported the end of the request


class Peers:
    """All peers, by address."""

    def __init__(
        self, retry_backoff_s: float, retry_backoff_max_s: float, random: Callable[[], float]
    ) -> None:
        self._low, self._high = retry_backoff_s, retry_backoff_max_s
        self._random = random
        self._by_address: dict[Address, Peer] = {}
        self._asked: dict[int, tuple[Peer, OnAnswer, OnFailed | None]] = {}
        self._number = 0

    def at(self, address: Address) -> Peer:
        """Return the peer at ``address``, known or new."""
        peer = self._by_address.get(address)
        if peer is None:
            # A peer with a request in flight stays: its number must find it when the response
            # comes. Forgetting a peer ends its pause early, which is safe.
            if len(self._by_address) >= _PEERS_MAX:
                self._by_address = {
                    at: peer for at, peer in self._by_address.items() if peer.number
                }
            backoff = Backoff(self._low, self._high, self._random)
            peer = self._by_address[address] = Peer(address, backoff)
        return peer

    def ready_at(self, address: Address) -> float:
        """Return when ``address`` may be asked next. The end of a request in flight is an event, so
        until then it is the time at which that event is overdue.
        """
        peer = self.at(address)
        return peer.until if peer.number else peer.ready_at

    def begin(
        self,
        address: Address,
        timeout_s: float,
        now: float,
        on_answer: OnAnswer,
        on_failed: OnFailed | None = None,
    ) -> int:
        """Note a request to ``address``; return its number."""
        peer = self.at(address)
        # The end of an older request is overdue: its response will be discarded.
        if peer.number:
            self._asked.pop(peer.number, None)
        self._number += 1
        peer.number = self._number
        # The driver ends every request after ``timeout_s``. Twice that has passed only if its event
        # was lost.
        peer.until = now + 2 * timeout_s
        self._asked[self._number] = peer, on_answer, on_failed
        return self._number

    def answered(self, number: int, message: Any, version: int, now: float) -> None:
        """Handle the response to request ``number`` if that is still in flight."""
        # A late or second response finds nothing here. Seeded bug in tests/sim:
        # ``late_responses_count``.
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        peer, on_answer, _ = asked
        # Before the callback, which may send the next request to this address.
        self._ended(peer, number)
        useful = on_answer(message, version)
        if useful:
            peer.backoff.progress()
        elif useful is not None:
            self._rest(peer, now)

    def failed(self, number: int, failure: Failure, now: float) -> None:
        """Handle the end of request ``number`` without a response."""
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        peer, _, on_failed = asked
        self._ended(peer, number)
        self._rest(peer, now)
        if on_failed is not None:
            on_failed(failure)

    def rest(self, address: Address, now: float, at_least_s: float = 0.0) -> None:
        """Send no request to ``address`` for ``at_least_s`` seconds, and count a failure of it."""
        peer = self.at(address)
        self._rest(peer, now)
        peer.ready_at = max(peer.ready_at, now + at_least_s)

    def _ended(self, peer: Peer, number: int) -> None:
        assert peer.number == number, "two requests were in flight to one peer"
        peer.number = 0
        peer.until = math.inf

    def _rest(self, peer: Peer, now: float) -> None:
        # ``max``: a pause after an authorization failure is longer, and must not be cut short.
        peer.ready_at = max(peer.ready_at, now + peer.backoff.failed())
