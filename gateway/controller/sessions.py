"""What the active controller knows of brokers and the log does not: when they were heard, and how far they have read.

Soft state (``BrokerHeartbeatTracker``, ``BrokerHeartbeatManager``): it begins anew with every leader, decides when records are
made, and never what they say. It knows no record and no request. Everything is said of a broker *at its epoch*: one that
registers again is another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

#: No offset was told yet.
UNKNOWN_OFFSET: Final = -1


class Registered(NamedTuple):
    """A broker's registration (``BrokerIdAndEpoch``)."""

    broker_id: int
    epoch: int


class Sessions:
    """Times are milliseconds on a clock that never jumps."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._heard: dict[Registered, int] = {}  # the longest silent first
        self._read: dict[Registered, int] = {}
        self._leaving: dict[Registered, int] = {}
        self._registered_at: dict[Registered, int] = {}

    # --- who is there -------------------------------------------------------------------------------------------------

    def hear(self, broker: Registered, now_ms: int) -> None:
        """The broker was heard: its session begins, or goes on."""
        self._heard.pop(broker, None)
        self._heard[broker] = now_ms

    def is_valid(self, broker: Registered, now_ms: int) -> bool:
        """Was the broker heard within the time of a session?"""
        heard_ms = self._heard.get(broker)
        return heard_ms is not None and now_ms <= heard_ms + self._timeout_ms

    def expired(self, now_ms: int) -> Registered | None:
        """The broker that has been silent longest, if that is too long."""
        silent = next(iter(self._heard), None)
        return None if silent is None or self.is_valid(silent, now_ms) else silent

    @property
    def deadline_ms(self) -> int | None:
        """After which moment the next session ends, if nothing is heard; None without sessions."""
        first = next(iter(self._heard.values()), None)
        return None if first is None else first + self._timeout_ms

    def forget(self, broker: Registered) -> None:
        """Nothing is known of the broker any more."""
        for known in (self._heard, self._read, self._leaving, self._registered_at):
            known.pop(broker, None)

    # --- how far they are ---------------------------------------------------------------------------------------------

    def register(self, broker: Registered, offset: int) -> None:
        """The record of its registration, or of a change to it, is at ``offset``."""
        self._registered_at[broker] = offset

    def registered_at(self, broker: Registered) -> int:
        """Where a broker must have read to, to know of its own registration.

        Where an earlier leader wrote it that is the broker's epoch, which is the offset that registration began at.
        """
        return self._registered_at.get(broker, broker.epoch)

    def has_read(self, broker: Registered, offset: int) -> None:
        """The broker says how far it has come in the metadata log."""
        self._read[broker] = offset

    def lowest_read(self, brokers: Iterable[Registered]) -> int | None:
        """How far all of them have come but those that are leaving (``lowestActiveOffset``); None without any."""
        return min((self._read.get(one, UNKNOWN_OFFSET) for one in brokers if one not in self._leaving), default=None)

    # --- controlled shutdown ------------------------------------------------------------------------------------------

    def leave(self, broker: Registered, offset: int) -> None:
        """The broker is in controlled shutdown; its partitions had been moved up to ``offset``. The first time counts."""
        self._leaving.setdefault(broker, offset)

    def stay(self, broker: Registered) -> None:
        """The broker is not in controlled shutdown, or no longer: it was fenced."""
        self._leaving.pop(broker, None)

    def leaving_at(self, broker: Registered) -> int | None:
        """What the others must have read before it may go; None where it is not in controlled shutdown."""
        return self._leaving.get(broker)
