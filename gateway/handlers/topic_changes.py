"""Remembers the names of the topics that changed in an image, in numbered steps.

``gateway.handlers.topic_index`` reads here what it has to make again. This module does not know
what changed in a topic, and forgets what is long ago.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain, islice
from typing import Final

#: Names in all steps together, at most, besides those of the newest step.
_NAMES_MAX: Final = 10_000


class TopicChanges:
    """The names of the topics that each of the last steps created, deleted or changed.

    ``number`` counts the steps, and is the version of the topics: while it stays the same, no
    topic has changed.
    """

    __slots__ = ("_count", "_steps", "number")

    def __init__(self) -> None:
        self.number = 0
        self._steps: deque[tuple[str, ...]] = deque()
        self._count = 0  # names in _steps

    def add(self, names: Iterable[str]) -> None:
        """Add a step that changed the topics of these names; none adds nothing."""
        step = tuple(names)
        if not step:
            return
        self.number += 1
        while self._steps and self._count + len(step) > _NAMES_MAX:
            self._count -= len(self._steps.popleft())
        self._steps.append(step)
        self._count += len(step)

    def since(self, number: int) -> list[str] | None:
        """Return the names of the topics that changed since ``number`` had this value; None if
        some of them are forgotten. A name may occur more than once.
        """
        missed = self.number - number
        if missed > len(self._steps):
            return None
        return list(chain.from_iterable(islice(reversed(self._steps), missed)))
