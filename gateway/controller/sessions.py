"""Keeps the sessions of brokers: their last heartbeats, and the offsets that they have read.

This state is not in the log (``BrokerHeartbeatTracker``, ``BrokerHeartbeatManager``): it begins
anew with every leader, and decides when records are made, never their content. A session belongs to
a broker at its epoch: a broker that registers again has a new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

#: The broker has not reported an offset yet.
UNKNOWN_OFFSET: Final = -1


class Registered(NamedTuple):
    """A broker's registration (``BrokerIdAndEpoch``)."""

    broker_id: int
    epoch: int


class Sessions:
    """The sessions of all brokers. Times are milliseconds on a clock that never jumps."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._touched_ms: dict[Registered, int] = {}  # the oldest heartbeat first
        self._read: dict[Registered, int] = {}
        self._leaving: dict[Registered, int] = {}
        self._registered_at: dict[Registered, int] = {}

    # --- heartbeats

    def touch(self, broker: Registered, now_ms: int) -> None:
        """Begin or continue the session of the broker, which sent a request."""
        # Removed first, so that the broker moves to the end: the dict is in the order of
        # heartbeats.
        self._touched_ms.pop(broker, None)
        self._touched_ms[broker] = now_ms

    def is_valid(self, broker: Registered, now_ms: int) -> bool:
        """Whether the broker sent a request within the session timeout."""
        touched_ms = self._touched_ms.get(broker)
        # ``<=``: the session is valid in the millisecond of its end (``hasValidSession``).
        return touched_ms is not None and now_ms <= touched_ms + self._timeout_ms

    def expired(self, now_ms: int) -> Registered | None:
        """The broker with the oldest heartbeat, if its session has ended."""
        # If the oldest session has not ended, no other has (BrokerHeartbeatManager).
        silent = next(iter(self._touched_ms), None)
        return None if silent is None or self.is_valid(silent, now_ms) else silent

    @property
    def deadline_ms(self) -> int | None:
        """When the next session ends without another heartbeat; None without sessions."""
        first = next(iter(self._touched_ms.values()), None)
        return None if first is None else first + self._timeout_ms

    def forget(self, broker: Registered) -> None:
        """Drop the session of the broker."""
        for known in (self._touched_ms, self._read, self._leaving, self._registered_at):
            known.pop(broker, None)

    # --- offsets

    def register(self, broker: Registered, offset: int) -> None:
        """The record of its registration, or of a change to it, is at ``offset``."""
        # The last record and not the broker epoch, which is the first: the records before it may be
        # thousands.
        self._registered_at[broker] = offset

    def registered_at(self, broker: Registered) -> int:
        """The offset that a broker must have read to know its own registration.

        For a registration that an earlier leader wrote it is the broker epoch, which is the offset
        that the registration began at.
        """
        return self._registered_at.get(broker, broker.epoch)

    def has_read(self, broker: Registered, offset: int) -> None:
        """The broker has read the metadata log up to ``offset``."""
        self._read[broker] = offset

    def lowest_read(self, brokers: Iterable[Registered]) -> int | None:
        """The lowest offset that the brokers have read, without those in controlled shutdown
        (``lowestActiveOffset``); None without any.
        """
        # Those in controlled shutdown may be stopped already, and would keep the others from
        # stopping.
        return min(
            (self._read.get(one, UNKNOWN_OFFSET) for one in brokers if one not in self._leaving),
            default=None,
        )

    # --- controlled shutdown

    def leave(self, broker: Registered, offset: int) -> None:
        """The broker is in controlled shutdown, and its partitions were moved by ``offset``. Later
        calls change nothing.
        """
        # The first offset counts: with that of every heartbeat the shutdown would never end
        # (maybeUpdateControlledShutdownOffset).
        self._leaving.setdefault(broker, offset)

    def stay(self, broker: Registered) -> None:
        """Note that the broker is not, or no longer, in controlled shutdown, because it is
        fenced.
        """
        self._leaving.pop(broker, None)

    def leaving_at(self, broker: Registered) -> int | None:
        """Return the offset that the other brokers must have read before this broker may shut down;
        None if this broker is not in controlled shutdown.
        """
        return self._leaving.get(broker)
