"""The model quorum behind real sockets: every voter listens on loopback and misbehaves on
demand.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio
import trio.testing

from gateway.base.address import Address
from kwire.message import Message
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import snapshot_bytes
from tests.gateway.quorum.observer.controller import answer, must_wait
from tests.gateway.quorum.observer.model import Quorum, Voter
from tests.gateway.server.upstream_peer import API_VERSIONS, Asked, Node
from tests.waiting import until_async

FETCH, FETCH_SNAPSHOT = FetchRequest.API_KEY, FetchSnapshotRequest.API_KEY
DESCRIBE_CLUSTER, DESCRIBE_QUORUM = DescribeClusterRequest.API_KEY, DescribeQuorumRequest.API_KEY

#: An action of a voter before it answers; True if it is not to answer any more.
Mood = Callable[[Node, Asked], Awaitable[bool]]
#: Changes a voter's response before it is sent.
Twist = Callable[[Asked, Any], None]


@dataclass
class LoopbackVoter(Voter):
    """A voter with a port of its own, which it keeps while it is down."""

    port: int = 0
    mood: Mood | None = None
    twist: Twist | None = None
    asked: list[Asked] = field(default_factory=list)
    scope: trio.CancelScope | None = None
    connections: int = 0

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port)

    def count(self, api_key: int) -> int:
        """Number of requests of an API that were received."""
        return sum(one.key == api_key for one in self.asked)


class LoopbackQuorum(Quorum):
    """Voters 1 to n. Waiting requests see a change of the model after :meth:`changed`."""

    def __init__(self, nursery: trio.Nursery, size: int, dynamic: bool) -> None:
        super().__init__(size, dynamic=dynamic)
        self.voters: dict[int, Any] = {id: LoopbackVoter(id) for id in self.voters}
        self._nursery = nursery
        self._moved = trio.Event()

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        return tuple(voter.address for voter in self.voters.values())

    @property
    def leader(self) -> Any:
        """The voter that leads the newest epoch."""
        return self.voters[self.leaders[max(self.leaders)]]

    def changed(self) -> None:
        """Wake all requests that wait at a voter."""
        self._moved.set()
        self._moved = trio.Event()

    # --- what tests do

    def lead(self, id: int, electors: list[int] | None = None) -> None:
        """Make ``id``, whose log must be up to date, the leader of a new epoch, followed by all
        running voters.
        """
        group = [
            id,
            *(other for other in electors or self.voters if other != id and self.voters[other].up),
        ]
        assert self.elect(group, group) == id, "its log is not good enough"
        self.replicate_all()

    def write(self, count: int = 1, *, commit: bool = True) -> None:
        """Append a batch at the leader; the other voters have it at once, or never."""
        assert self.append(self.leader.id, count)
        if commit:
            self.replicate_all()
        self.changed()

    def replicate_all(self) -> None:
        for _ in range(2):  # the second time they hear that it is committed
            for id in self.voters:
                self.replicate(id, self.leader.id, 10_000)
        self.changed()

    def take_snapshot(self, *, clean: bool) -> SnapshotId:
        """Write a readable snapshot at the leader; with ``clean`` its log begins there."""
        leader = self.leader
        before = set(leader.snapshots)
        assert self.snapshot(leader.id, 0)
        id: SnapshotId
        (id,) = set(leader.snapshots) - before
        leader.snapshots[id] = snapshot_bytes(id.epoch, (3,))
        if clean:
            self.clean(leader.id, 1)
        return id

    async def down(self, *ids: int) -> None:
        """Stop these voters: requests are not answered, and connecting fails."""
        for id in ids or self.voters:
            self.crash(id)
            scope, self.voters[id].scope = self.voters[id].scope, None
            if scope is not None:
                scope.cancel()
        self.changed()
        await trio.testing.wait_all_tasks_blocked(0.01)

    async def up(self, *ids: int) -> None:
        """Start them again at the same ports."""
        for id in ids or self.voters:
            voter = self.voters[id]
            self.restart(id)
            [listener] = await trio.open_tcp_listeners(voter.port, host="127.0.0.1")
            voter.port = listener.socket.getsockname()[1]
            voter.scope = trio.CancelScope()
            self._nursery.start_soon(self._serve, voter, listener, voter.scope)

    # --- what voters do

    async def _serve(
        self, voter: LoopbackVoter, listener: trio.SocketListener, scope: trio.CancelScope
    ) -> None:
        async def connected(stream: trio.SocketStream) -> None:
            voter.connections += 1
            try:
                await self._converse(voter, Node(stream, voter.asked))
            except (trio.EndOfChannel, trio.BrokenResourceError):
                pass
            finally:
                voter.connections -= 1
                await trio.aclose_forcefully(stream)

        with scope:
            await trio.serve_listeners(connected, [listener])

    async def _converse(self, voter: LoopbackVoter, node: Node) -> None:
        while True:
            asked = await node.next()
            if asked.key == API_VERSIONS:
                await node.greet_with(asked, offer(voter.fetch_versions))
            elif voter.mood is None or not await voter.mood(node, asked):
                made = await self._answer(voter, asked)
                if voter.twist is not None:
                    voter.twist(asked, made)
                await node.send(asked.answer(made))

    async def _answer(self, voter: LoopbackVoter, asked: Asked) -> Message:
        made = answer(self, voter, asked.message, asked.version)
        if asked.key != FETCH:
            return made
        before: int | None = None
        with trio.move_on_after(asked.message.max_wait_ms / 1000):
            while must_wait(voter, asked.message, made, before):
                before = voter.high_watermark
                await self._moved.wait()
                made = answer(self, voter, asked.message, asked.version)
        return made


def offer(fetch_versions: range) -> ApiVersionsResponse:
    """The ApiVersions response of a controller, with the APIs that an observer uses."""
    ranges = {
        FETCH: fetch_versions,
        FETCH_SNAPSHOT: range(2),
        DESCRIBE_CLUSTER: range(3),
        DESCRIBE_QUORUM: range(3),
    }
    keys = [
        ApiVersion(api_key=key, min_version=min(one), max_version=max(one))
        for key, one in ranges.items()
    ]
    return ApiVersionsResponse(api_keys=[*keys, ApiVersion(api_key=API_VERSIONS, max_version=4)])


@contextlib.asynccontextmanager
async def loopback_quorum(
    size: int = 3, *, leader: int | None = 1, dynamic: bool = False
) -> AsyncIterator[LoopbackQuorum]:
    """A listening quorum led by ``leader``. At the end the client must have closed every
    connection.
    """
    async with trio.open_nursery() as nursery:
        quorum = LoopbackQuorum(nursery, size, dynamic)
        await quorum.up()
        if leader is not None:
            quorum.lead(leader)
        yield quorum
        await until_async(
            lambda: not any(voter.connections for voter in quorum.voters.values()),
            "the close of every connection of the client",
        )
        nursery.cancel_scope.cancel()


# --- moods


def once(mood: Mood, api_key: int = FETCH, *, times: int = 1) -> Mood:
    """Apply ``mood`` to the first ``times`` requests of an API."""
    left = times

    async def chosen(node: Node, asked: Asked) -> bool:
        nonlocal left
        if asked.key != api_key or not left:
            return False
        left -= 1
        return await mood(node, asked)

    return chosen


async def hangs(node: Node, asked: Asked) -> bool:
    """Never answer."""
    await node.next()
    return True


async def closes(node: Node, asked: Asked) -> bool:
    """Close the connection instead of answering."""
    raise trio.EndOfChannel


async def answers_garbage(node: Node, asked: Asked) -> bool:
    """Answer with a frame of the right correlation id and a malformed body."""
    await node.send(b"\0\0\0\x10" + asked.header.correlation_id.to_bytes(4, "big") + b"\xff" * 12)
    return True
