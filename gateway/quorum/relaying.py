"""Answers the Fetch of other observers in the leader's place, from the committed part of this
observer's copy: a relay.

A relay names the leader and epoch that it knows, with its own address as the leader's, so that an
observer follows it as it would follow the leader. It refuses voters: a voter must hear from the
leader itself, which counts what the voter has. The high watermark that it names is the leader's
last one, so that an observer is caught up when it is so with the quorum. Kafka has no counterpart;
the nearest is a consumer's Fetch from a follower (KIP-392), which ends at the high watermark, too.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import Any, Final

from gateway.quorum import checks, responses
from gateway.quorum.effects import LogRange
from gateway.quorum.events import Requested
from gateway.quorum.node import NO_NODE, Node
from gateway.quorum.partition import Position
from gateway.quorum.replicated_log import ValidOffsetAndEpoch
from gateway.quorum.roles import DelayedFetch
from kwire.messages.fetch_request import FetchRequest
from kwire.protocol import ErrorCode

#: Fetches that wait at one time. One more ends the wait of the oldest.
_DELAYED_MAX: Final = 4096
#: Longest wait of a Fetch, ms: max_wait_ms may be 24 days.
_WAIT_MS_MAX: Final = 300_000
#: Fetches that one step answers. A commit answers all that wait, which may be thousands.
_STEP_MAX: Final = 64


class Relaying:
    """Answers the Fetch requests that other observers send to this observer."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._delayed: dict[int, DelayedFetch] = {}
        self._waits: list[tuple[float, int]] = []  # a heap of (until, number)
        self._due: deque[int] = deque()  # numbers of Fetches to look at again
        self._seen = self._state()

    def refusal(self, replica_id: int) -> ErrorCode:
        """Return the error of a request as a whole; NONE if this relay may answer the replica."""
        node = self._node
        # A Kafka voter that gets BROKER_NOT_AVAILABLE asks the next node, and does nothing else.
        # Without a cluster id of its own this node cannot tell whether the sender is of another
        # cluster, and an observer that is told so stops.
        is_voter = replica_id in node.voters.nodes or replica_id in node.reported_voters
        if node.cluster_id is None or is_voter:
            return ErrorCode.BROKER_NOT_AVAILABLE
        return ErrorCode.NONE

    def serve(self, asked: Requested, request: FetchRequest, partition: Any) -> None:
        """Answer a Fetch whose fields are valid, at once or later."""
        waiting = DelayedFetch(
            asked.number, None, request, partition, asked.version, asked.listener, math.inf
        )
        if not self._answer(waiting, now_or_never=request.max_wait_ms == 0):
            self._delay(waiting)

    def cancel(self, number: int) -> None:
        """Drop a delayed Fetch whose client has disconnected."""
        self._delayed.pop(number, None)

    def poll(self) -> None:
        """Answer Fetches for which there is news, and those whose wait is over."""
        now, state = self._node.now, self._state()
        # During an election there is no news worth a request of every observer: they hear of the
        # new epoch when it has a leader.
        if state != self._seen and self._node.leader_id != NO_NODE:
            self._seen = state
            self._due = deque(self._delayed)
        left = _STEP_MAX
        while self._due and left:
            waiting = self._delayed.get(self._due.popleft())
            if waiting is not None and self._answer(waiting, now_or_never=False):
                self._delayed.pop(waiting.number, None)
            left -= 1
        while left and self._waits and self._waits[0][0] <= now:
            ended = self._delayed.pop(heapq.heappop(self._waits)[1], None)
            if ended is not None:
                self._answer(ended, now_or_never=True)
                left -= 1

    @property
    def deadline(self) -> float:
        """When :meth:`poll` has to be called next."""
        if self._due:
            return self._node.now
        return self._waits[0][0] if self._waits else math.inf

    def _state(self) -> tuple[int, int, int, int]:
        """Return what the answer to a waiting Fetch depends on."""
        node = self._node
        return node.high_watermark, node.log.start_offset, node.epoch, node.leader_id

    def _answer(self, asked: DelayedFetch, *, now_or_never: bool) -> bool:
        """Answer if there is anything new, or ``now_or_never``; return False if it must wait."""
        node, partition = self._node, asked.partition
        # While it waited this node may have found another epoch, or lost its leader.
        error = checks.leader_only(node, partition.current_leader_epoch)
        if error:
            responses.fetch(node, asked, error)
            return True
        offset, committed = partition.fetch_offset, node.high_watermark
        verdict = self._validate(offset, partition.last_fetched_epoch)
        if verdict.diverging is not None or verdict.snapshot is not None:
            responses.fetch(
                node,
                asked,
                high_watermark=self._told,
                diverging=verdict.diverging,
                snapshot=verdict.snapshot,
            )
            return True
        if offset < committed:
            most = min(max(asked.request.max_bytes, 1), responses.FETCH_MAX_BYTES)
            read = LogRange(offset, committed, most)
            responses.fetch(node, asked, high_watermark=self._told, read=read)
            return True
        if now_or_never or committed > partition.high_watermark:
            # The observer may have records beyond the committed ones of this node. They may be
            # others than the quorum has, so it is told of no commit that would cover them.
            told = self._told if offset == committed else committed or -1
            responses.fetch(node, asked, high_watermark=told)
            return True
        return False

    @property
    def _told(self) -> int:
        """The high watermark for a replica whose log is a part of the committed one."""
        return max(self._node.high_watermark or -1, self._node.leader_high_watermark)

    def _validate(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        """Return whether a fetch position is valid, as far as committed records prove it.

        An observer may be ahead of this one: it followed the leader or another relay before. A
        leader would find that it diverges, and it would truncate what is committed, or stop. Here
        it waits until this node has caught up.
        """
        node = self._node
        verdict = node.log.validate(offset, epoch)
        diverging, committed = verdict.diverging, node.high_watermark
        if diverging is None:
            return verdict
        # Proven if a committed record of another epoch follows the last common one, or if the
        # observer's last record has a committed counterpart of another epoch.
        if diverging.offset < committed or offset <= committed:
            end = Position(min(diverging.offset, committed), diverging.epoch)
            return ValidOffsetAndEpoch(diverging=end)
        return ValidOffsetAndEpoch()

    def _delay(self, waiting: DelayedFetch) -> None:
        delayed, waits = self._delayed, self._waits
        if len(delayed) >= _DELAYED_MAX:
            # Without an error: the observer fetches again at once, and waits behind the others.
            self._answer(delayed.pop(next(iter(delayed))), now_or_never=True)
        waiting.until = self._node.now + min(waiting.request.max_wait_ms, _WAIT_MS_MAX) / 1000.0
        delayed[waiting.number] = waiting
        heapq.heappush(waits, (waiting.until, waiting.number))
        # The heap keeps the ends of waits that are over already. They must not outnumber the rest.
        if len(waits) > 2 * len(delayed) + _STEP_MAX:
            self._waits = [(one.until, one.number) for one in delayed.values()]
            heapq.heapify(self._waits)
