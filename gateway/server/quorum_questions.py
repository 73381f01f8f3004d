"""Asks the quorum's leader what a client here wants to know of it: one question at a time, answered
to all who wait for it.

It has a connection of its own: over the other one a Fetch may wait for half a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.quorum.errors import ErrorCode, error_name
from gateway.quorum.requests import DESCRIBE_QUORUM_VERSIONS, describe_quorum
from gateway.server.quorum_peer import Connecting, Peer
from gateway.server.upstream_errors import ConnectionClosed, UpstreamError
from kwire.messages.describe_quorum_request import DescribeQuorumRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.address import Address
    from gateway.server.logs import Reports
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse

    Report = Callable[[DescribeQuorumResponse | str], None]

#: So many may wait for the same answer; more are refused at once.
_WAITING_MAX: Final = 10_000


class QuorumQuestions:
    """``describe`` of ``gateway.ports.Quorum``; :meth:`run` is the task. ``leader`` tells where the
    leader is, if known.
    """

    def __init__(
        self,
        leader: Callable[[], Address | None],
        how: Connecting,
        timeout_s: float,
        reports: Reports,
    ) -> None:
        self._leader = leader
        self._how = how
        self._timeout_s = timeout_s
        self._reports = reports
        self._waiting: list[Report] = []
        self._asked = trio.Event()

    def describe(self, tell: Report) -> None:
        """Ask the leader who votes and who follows; ``tell`` is called once, with its answer or why
        there is none.
        """
        if len(self._waiting) >= _WAITING_MAX:
            tell("too many wait for an answer of the leader; ask again later")
            return
        self._waiting.append(tell)
        self._asked.set()

    async def run(self) -> None:
        """Ask whenever somebody wants to know, for ever."""
        peer = Peer(self._how)
        try:
            while True:
                await self._asked.wait()
                self._asked = trio.Event()
                waiting, self._waiting = self._waiting, []
                answer = await self._answer(peer)
                for tell in waiting:
                    self._forward(tell, answer)
        finally:
            with trio.CancelScope(shield=True):
                await peer.close()

    async def _answer(self, peer: Peer) -> DescribeQuorumResponse | str:
        address = self._leader()
        if address is None:
            return "no leader of the quorum is known at the moment; ask again"
        try:
            answer = await self._ask(peer, address)
        except UpstreamError as error:
            return str(error)
        except Exception as error:  # a bug of ours: it costs the answer
            self._reports.bug("quorum description failed", error)
            await peer.close()
            return "this server could not ask the quorum's leader; its log says why"
        return _refusal(answer, address) or answer

    async def _ask(self, peer: Peer, address: Address) -> DescribeQuorumResponse:
        """Raises UpstreamError. A connection may have been closed while nobody asked anything: that
        is tried once more.
        """
        while True:
            upstream, used = await peer.at(address), peer.used
            peer.used = True
            version = upstream.common_version(
                DescribeQuorumRequest.API_KEY, DESCRIBE_QUORUM_VERSIONS
            )
            try:
                answer: DescribeQuorumResponse = await upstream.call(
                    describe_quorum(), version, timeout_s=self._timeout_s
                )
                return answer
            except ConnectionClosed:
                if not used:
                    raise

    def _forward(self, tell: Report, answer: DescribeQuorumResponse | str) -> None:
        try:
            tell(answer)
        except Exception as error:  # a bug of a handler: the others are told all the same
            self._reports.bug("quorum response not delivered", error)


def _refusal(answer: DescribeQuorumResponse, address: Address) -> str:
    """Why the answer is none to pass on; empty if it is one."""
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return f"{address} does not let this gateway describe the quorum: allow its principal to Describe the cluster"
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    codes = [code for code in (answer.error_code, *(one.error_code for one in partitions)) if code]
    if codes or not partitions:
        return f"{address} answered with {error_name(codes[0]) if codes else 'nothing'}; ask again"
    return ""
