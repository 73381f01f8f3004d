"""Queues the disk effects of a raft core and holds its messages until they may be sent.

Every message names the last disk effect that it depends on (``after``), and is held until that
effect is durable: a vote, for instance, until ``quorum-state`` holds it (Raft, figure 2: persistent
state is updated on stable storage before responding to RPCs). Effects that arrive during a write
are performed together by the next one, with one sync (group commit). ``gateway.sources.quorum_log``
performs the effects; this module never touches a file.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from gateway.quorum.effects import Advance, DiskEffect, Reply, Send

if TYPE_CHECKING:
    from collections.abc import Sequence


class WriteQueue:
    """The effects to perform, and the messages that wait for them."""

    def __init__(self) -> None:
        self._effects: list[DiskEffect | Advance] = []
        self._added = trio.Event()
        self._held: deque[Send | Reply] = deque()
        self.durable = 0  #: token of the last effect that is durable

    def add(self, effect: DiskEffect | Advance) -> None:
        """Queue an effect. Effects are performed in the order in which they are added."""
        self._effects.append(effect)
        self._added.set()

    def hold(self, message: Send | Reply) -> bool:
        """Keep ``message`` if it depends on an effect that is not durable yet; False if it may be
        sent at once.
        """
        if message.after <= self.durable:
            return False
        self._held.append(message)
        return True

    async def take(self) -> Sequence[DiskEffect | Advance]:
        """Wait for effects, and return all of them."""
        await self._added.wait()
        effects, self._effects, self._added = self._effects, [], trio.Event()
        return effects

    def written(self, effects: Sequence[DiskEffect | Advance]) -> None:
        """Note that ``effects`` are durable. Some, such as parts of a snapshot, have no token: no
        message depends on them alone.
        """
        tokens = (getattr(effect, "token", 0) for effect in effects)
        self.durable = max([self.durable, *tokens])

    def release(self) -> list[Send | Reply]:
        """Remove and return the messages that may be sent now, in order."""
        held, self._held = self._held, deque()
        released = []
        for message in held:
            if not self.hold(message):
                released.append(message)
        return released

    def clear(self) -> None:
        """Drop everything: a new core starts, whose tokens begin at 1 again."""
        self._effects.clear()
        self._held.clear()
        self._added = trio.Event()
        self.durable = 0
