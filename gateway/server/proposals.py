"""Records that the active controller wants appended, in their order, with whom to tell what when they are committed.

Knows who asked, and nothing of what they asked for, nor of who leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.handlers.context import Later
    from gateway.ports import Asker
    from kwire.message import Message


@dataclass(frozen=True, slots=True)
class Wish:
    """A request that was not carried out yet."""

    request: Message
    version: int
    asker: Asker
    later: Later

    @property
    def is_wanted(self) -> bool:
        """Does anybody still wait for the answer?"""
        return not (self.later.done or self.later.cancelled)


@dataclass(slots=True)
class Proposal:
    """Records on their way: whom to tell what when they are committed. ``end_offset`` None: not appended yet."""

    records: int
    change: Wish | None  #: whose change these records are; None: the controller's own
    answers: list[tuple[Wish, Message]] = field(default_factory=list)
    then: list[Callable[[], None]] = field(default_factory=list)  #: to be called when it is committed, or never will be
    end_offset: int | None = None


class Proposals:
    """Those of one node, by the numbers that the core knows them by."""

    def __init__(self) -> None:
        self.queued = 0  #: records that were proposed and are not appended yet
        self._by_number: dict[int, Proposal] = {}

    def __bool__(self) -> bool:
        return bool(self._by_number)

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    @property
    def last(self) -> Proposal | None:
        """What was proposed last, if it is not committed yet."""
        return self._by_number[next(reversed(self._by_number))] if self._by_number else None

    def add(self, number: int, records: int, change: Wish | None) -> Proposal:
        """So many records are on their way to the core."""
        proposal = self._by_number[number] = Proposal(records, change)
        self.queued += records
        return proposal

    def accepted(self, number: int, end_offset: int) -> None:
        """They were appended; none where that was for an earlier leader."""
        proposal = self._by_number.get(number)
        if proposal is not None:
            proposal.end_offset = end_offset
            self.queued -= proposal.records

    def take(self, number: int) -> Proposal:
        """Forget one of them that will never be appended."""
        return self._by_number.pop(number)

    def committed(self, high_watermark: int) -> Iterator[Proposal]:
        """Those that are by now, in order. Each is taken out before it is given."""
        while self._by_number:
            number, proposal = next(iter(self._by_number.items()))
            if proposal.end_offset is None or proposal.end_offset > high_watermark:
                return
            del self._by_number[number]
            yield proposal

    def forget(self) -> list[Proposal]:
        """All that are left, which nobody here will hear of again."""
        left, self._by_number, self.queued = list(self._by_number.values()), {}, 0
        return left


def answer(proposals: Iterable[Proposal]) -> None:
    """Tell everybody who waits for these, in order: they are committed."""
    for proposal in proposals:
        for wish, said in proposal.answers:
            wish.later.complete(said)
        for then in proposal.then:
            then()
