"""Simulates the network: requests and responses are lost, late, duplicated or cut off in one
direction, or reach a node that has restarted since.

It checks a message that leaves its node: the votes and acknowledgements in it must be on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.quorum.effects import LogRange, Reply
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.messages.vote_request import VoteRequest
from kwire.messages.vote_response import VoteResponse
from kwire.uuid import ZERO_UUID
from tests.sim import chance, wire
from tests.sim.history import require
from tests.sim.links import Asked, Links
from tests.sim.node import Node

if TYPE_CHECKING:
    from tests.sim.world import World


class Network(Links):
    """Links between the nodes of a quorum."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.codec = False  #: every message goes through the codec
        self.versions.update(wire.NEWEST)

    def ask(self, target: Node, request: Message, version: int) -> None:
        """A request of a client, or a forged one."""
        self._arrive(target, Asked(None, 0, 0, version, wire.through_codec(request, version)))

    def _answers_itself(self, target: Node, asked: Asked) -> bool:
        if not isinstance(asked.message, ApiVersionsRequest):
            return False
        origin = asked.origin
        if origin is not None and (target.place, origin.place) not in self.cut:
            latency = self._latency(target.place, origin.place)
            self._answer(origin, asked, wire.api_versions(), latency)
        return True

    def _carried(self, message: Any, version: int) -> Any:
        """The message as its receiver reads it."""
        if self.codec or version != wire.NEWEST[message.API_KEY][-1]:
            return wire.through_codec(message, version)
        return message

    def _fill(self, node: Node, reply: Reply, answer: Any) -> bool:
        """Put bytes of the log or of a snapshot into a response. False when the disk no longer has
        them: the connection is closed then.
        """
        read = reply.read
        if read is None:
            return True
        if isinstance(read, LogRange):
            end = node.disk.log.end_offset
            require(
                read.end <= end,
                "10: node {} gives out records up to {}, on disk is {}",
                node.id,
                read.end,
                end,
            )
            records = node.disk.log.read(read.offset, read.end, read.max_bytes)
            if records is None:
                return False
            if records and self._world.chance.happens(
                chance.CORRUPT, node.place, -1, self._world.faults.corrupt
            ):
                records = records[:-1] + bytes([records[-1] ^ 1])
            answer.responses[0].partitions[0].records = records
            return True
        snapshot = node.disk.snapshots.get(read.id)
        if snapshot is None:
            return False
        part = answer.topics[0].partitions[0]
        part.size, part.unaligned_records = (
            len(snapshot.data),
            snapshot.data[read.position : read.position + read.max_bytes],
        )
        return True

    # --- checks of messages

    def _check_request(self, node: Node, request: Any) -> None:
        checker = self._world.checker
        checker.message_leaves(node, wire.epoch_of_request(request))
        if isinstance(request, VoteRequest):
            part = request.topics[0].partitions[0]
            if not part.pre_vote:
                checker.votes(node, part.replica_epoch, part.replica_id, part.replica_directory_id)
        elif isinstance(request, FetchRequest):
            asked = request.topics[0].partitions[0]
            checker.fetches(node, asked.fetch_offset, asked.last_fetched_epoch)

    def _check_answer(self, node: Node, asked: Asked, answer: Any) -> None:
        checker, request = self._world.checker, asked.message
        checker.message_leaves(node, wire.epoch_of_answer(answer))
        if (
            isinstance(answer, VoteResponse)
            and answer.topics
            and answer.topics[0].partitions[0].vote_granted
        ):
            part = request.topics[0].partitions[0]
            if not part.pre_vote:
                directory_id = part.replica_directory_id if asked.version >= 1 else ZERO_UUID
                checker.votes(node, part.replica_epoch, part.replica_id, directory_id)
        elif isinstance(answer, FetchResponse) and answer.responses:
            data = answer.responses[0].partitions[0]
            end = checker.committed.end_offset
            require(
                data.high_watermark <= end,
                "8: node {} reports {} as committed, not {}",
                node.id,
                data.high_watermark,
                end,
            )
            self._check_cluster(node, asked, bool(data.records))
        elif isinstance(answer, FetchSnapshotResponse) and answer.topics:
            self._check_cluster(node, asked, bool(answer.topics[0].partitions[0].unaligned_records))

    def _check_cluster(self, node: Node, asked: Asked, records: bool) -> None:
        same = asked.origin is None or asked.origin.settings.cluster_id == node.settings.cluster_id
        require(
            same or not records, "13: node {} gives records to a node of another cluster", node.id
        )
