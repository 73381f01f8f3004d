"""Keeps the proposals of the active controller in order, with the responses that wait for them.

A proposal is a list of records that the controller wants appended. This module knows who requested
them, and neither their content nor the quorum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.controller.admin_api import Refusal
from gateway.controller.apis import refused
from gateway.handlers.apis.voter_changes import VOTER_CHANGES
from gateway.handlers.apis.voter_changes import refuse as refuse_change
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.ports.pending_response import PendingResponse
    from gateway.ports.services import Requester
    from gateway.ports.streamed import Streamed
    from kwire.message import Message


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request of a client that waits for its response."""

    request: Message
    version: int
    requester: Requester
    pending: PendingResponse

    @property
    def is_wanted(self) -> bool:
        """Whether the client still waits for the response."""
        return not (self.pending.done or self.pending.cancelled)


@dataclass(slots=True)
class Proposal:
    """Records to be appended, and the responses to send when they are committed.

    ``end_offset`` is None until they are appended.
    """

    records: int
    change: QueuedRequest | None  #: the request that made them; None: the controller itself
    answers: list[tuple[QueuedRequest, Message | Streamed]] = field(default_factory=list)
    #: Callbacks for when it is committed, or never will be.
    on_committed: list[Callable[[], None]] = field(default_factory=list)
    end_offset: int | None = None


class Proposals:
    """The proposals of one node, by the numbers that the quorum's node knows them by."""

    #: To the client of a proposal that is appended when the leadership is lost.
    UNKNOWN: Final = (
        "This node lost the leadership before the change was committed: whether it was made is not "
        "known. Look, and ask again."
    )

    def __init__(self) -> None:
        self.queued = 0  #: records that were proposed and are not appended yet
        self._by_number: dict[int, Proposal] = {}
        self._appended_end = 0  # of the last proposal that was appended

    def __bool__(self) -> bool:
        return bool(self._by_number)

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    @property
    def last(self) -> Proposal | None:
        """The last proposal, if it is not committed yet."""
        return self._by_number[next(reversed(self._by_number))] if self._by_number else None

    def add(self, number: int, records: int, change: QueuedRequest | None) -> Proposal:
        """Add a proposal of ``records`` records."""
        assert number not in self._by_number, "a number has one proposal"
        proposal = self._by_number[number] = Proposal(records, change)
        self.queued += records
        return proposal

    def accepted(self, number: int, end_offset: int) -> None:
        """The records were appended. A number of an earlier leader is ignored."""
        proposal = self._by_number.get(number)
        if proposal is not None:
            assert proposal.end_offset is None, "a proposal is appended once"
            assert end_offset >= self._appended_end + proposal.records, "in order, and whole"
            self._appended_end = proposal.end_offset = end_offset
            self.queued -= proposal.records
            assert self.queued >= 0, "more was appended than proposed"

    def take(self, number: int) -> Proposal:
        """Remove a proposal that will never be appended."""
        proposal = self._by_number.pop(number)
        assert proposal.end_offset is None, "an appended proposal may still be committed"
        return proposal

    def committed(self, high_watermark: int) -> Iterator[Proposal]:
        """Remove and yield the proposals that are committed, in order."""
        while self._by_number:
            number, proposal = next(iter(self._by_number.items()))
            if proposal.end_offset is None or proposal.end_offset > high_watermark:
                return
            del self._by_number[number]
            yield proposal

    def forget(self) -> list[Proposal]:
        """Remove and return all proposals: this node does not learn what becomes of them."""
        left, self._by_number, self.queued = list(self._by_number.values()), {}, 0
        return left


def answer(proposals: Iterable[Proposal]) -> None:
    """Send the responses that wait for these proposals, in order: they are committed."""
    for proposal in proposals:
        for queued, response in proposal.answers:
            queued.pending.complete(response)
        for callback in proposal.on_committed:
            callback()


def refuse(queued: QueuedRequest, error: ErrorCode, message: str) -> None:
    """Send a response in which everything asked has this error."""
    request, version = queued.request, queued.version
    if request.API_KEY in VOTER_CHANGES:
        queued.pending.complete(refuse_change(request, Refusal(version, error, message)))
    else:
        queued.pending.complete(refused(request, version, error, message))
