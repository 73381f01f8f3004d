"""A small consumer without a group."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from kwire.conformance.client.answers import made
from kwire.errors import DecodeError
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import Compression, decode_batch
from kwire.uuid import ZERO_UUID
from tests.kwire.conformance.client.small.life import Ended, Life
from tests.kwire.conformance.client.small.node import Lost, Node

_BACKOFF_S: Final = 0.05
_WAIT_MS: Final = 200
_BYTES_MAX: Final = 1 << 20
_APPEND_TIME: Final = 8


class Consumer:
    """Reads partition 0 of a topic."""

    def __init__(self, life: Life, bootstrap: str, topic: str, *, has_sasl: bool = False) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.life, self.has_sasl = life, has_sasl
        self.bootstrap, self.topic = (host, int(port)), topic
        self.topic_id = ZERO_UUID
        self.addresses: dict[int, tuple[str, int]] = {}
        self.nodes: dict[tuple[str, int], Node] = {}
        self.leader, self.epoch, self.position = -1, -1, -1
        #: The epoch before the leader's, whose end is to be asked for; -1 for none.
        self.epoch_before = -1
        self.session, self.session_epoch = 0, 0
        self.aborted: set[int] = set()

    def node(self, address: tuple[str, int]) -> Node:
        """The connection to an address. Raises Lost."""
        if address not in self.nodes:
            first = not self.nodes or not self.life.has("authenticates-once")
            self.nodes[address] = Node(self.life, address, has_sasl=self.has_sasl and first)
        return self.nodes[address]

    def run(self) -> None:
        """Read, and begin again with metadata after everything that goes wrong."""
        while True:
            try:
                self.find_leader()
                while self.leader >= 0:
                    self.step()
                    self.life.wait(0)
            except Lost:
                self.life.dies_of("dies-on-close", "session-is-final")
                for node in self.nodes.values():
                    node.close()
                self.nodes.clear()
                self.session = self.session_epoch = 0
                self.leader = -1
            self.life.wait(0 if self.life.has("hammers") else _BACKOFF_S)

    def find_leader(self) -> None:
        """Ask any node for the leader."""
        known = list(self.addresses.values())
        places = (*known, self.bootstrap)
        if self.life.has("asks-bootstrap"):
            places = (self.bootstrap,)
        for address in places:
            try:
                answer = self.node(address).call(
                    ApiKey.METADATA,
                    MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]),
                )
                break
            except Lost:
                self.nodes.pop(address, None)
        else:
            raise Lost
        self.addresses = {one.node_id: (one.host, one.port) for one in answer.brokers}
        if self.life.has("needs-every-node"):
            self.connect_to_all()
        [topic] = answer.topics
        self.topic_id = topic.topic_id
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.life.dies_of("no-topic")
        for partition in topic.partitions:
            if partition.error_code:
                self.life.dies_of("no-patience")
            self.learn(partition.leader_id, partition.leader_epoch)

    def connect_to_all(self) -> None:
        """Connect to every node. Raises Ended if one of them refuses."""
        try:
            for address in self.addresses.values():
                self.node(address)
        except Lost:
            raise Ended from None

    def learn(self, leader: int, epoch: int) -> None:
        """Take a leader and its epoch, unless they come from a node that lags."""
        if epoch < self.epoch and not self.life.has("any-epoch"):
            return
        if epoch > self.epoch >= 0 and self.position >= 0:
            self.epoch_before = self.epoch
        self.leader, self.epoch = leader, epoch

    def step(self) -> None:
        """One Fetch, after the first offset is known and the position is valid."""
        address = self.addresses[self.leader]
        node = self.node(self.bootstrap if self.life.has("bootstrap-only") else address)
        if self.position < 0:
            self.find_start(node)
        elif self.epoch_before >= 0:
            self.validate(node)
        else:
            self.fetch(node)

    def fetch(self, node: Node) -> None:
        """Fetch from the position on."""
        version = node.version(ApiKey.FETCH)
        partition = FetchPartition(
            partition=0, fetch_offset=self.position, partition_max_bytes=_BYTES_MAX,
            current_leader_epoch=self.epoch if version >= 9 else -1,
        )  # fmt: skip
        named = made(
            FetchTopic, version, topic=self.topic, topic_id=self.topic_id, partitions=[partition]
        )
        answer = node.call(
            ApiKey.FETCH,
            FetchRequest(
                max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=_BYTES_MAX, isolation_level=1,
                session_id=self.session, session_epoch=self.session_epoch, topics=[named],
            ),
        )  # fmt: skip
        if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            if not self.life.has("keeps-session"):
                self.session = self.session_epoch = 0
            return
        self.session = answer.session_id
        self.session_epoch = self.session_epoch + 1 if self.session else 0
        for topic in answer.responses:
            for found in topic.partitions:
                self.take(found, answer)

    def find_start(self, node: Node) -> None:
        """Ask for the first offset."""
        asked = ListOffsetsPartition(partition_index=0, timestamp=-2)
        topics = [ListOffsetsTopic(name=self.topic, partitions=[asked])]
        answer = node.call(ApiKey.LIST_OFFSETS, ListOffsetsRequest(topics=topics))
        [partition] = answer.topics[0].partitions
        if partition.error_code:
            self.leader = -1
        else:
            self.position = partition.offset

    def validate(self, node: Node) -> None:
        """Ask a new leader for the end of the epoch before, and go back to it (KIP-320)."""
        before, self.epoch_before = self.epoch_before, -1
        if self.life.has("no-validation", "ignores-truncation"):
            return
        asked = OffsetForLeaderPartition(
            partition=0, current_leader_epoch=self.epoch, leader_epoch=before
        )
        topics = [OffsetForLeaderTopic(topic=self.topic, partitions=[asked])]
        answer = node.call(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(topics=topics)
        )
        [found] = answer.topics[0].partitions
        if found.error_code:
            self.leader, self.epoch_before = -1, before
        elif found.end_offset >= 0:
            self.position = min(self.position, found.end_offset)

    def take(self, partition: Any, answer: Any) -> None:
        """Print the records of an answer, or act on its error."""
        if error := partition.error_code:
            self.on_error(error, partition.current_leader, answer)
            return
        self.aborted |= {one.producer_id for one in partition.aborted_transactions or ()}
        for value in self.values(bytes(partition.records or b"")):
            for _ in range(2 if self.life.has("prints-twice") else 1):
                self.life.say(value.split(b"\n")[0].decode(errors="replace"))

    def on_error(self, error: int, told: Any, answer: Any) -> None:
        """Act on the error of a partition."""
        if error not in list(ErrorCode):
            self.life.dies_of("no-unknown-error")
        self.life.dies_of(f"dies-of-{error}")
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not self.life.has("repeats", "ignores-truncation"):
                self.position = -1
            return
        if told.leader_id >= 0 and not self.life.has("ignores-hint"):
            for one in answer.node_endpoints:
                self.addresses[one.node_id] = (one.host, one.port)
            self.learn(told.leader_id, told.leader_epoch)
        elif not self.life.has("stays"):
            self.leader = -1

    def values(self, data: bytes) -> Iterator[bytes]:
        """The values from the position on, which moves."""
        start = 0
        while start + 12 <= len(data):
            [size] = struct.unpack_from(">i", data, start + 8)
            one = data[start : start + 12 + size]
            if len(one) < 12 + size:
                self.life.dies_of("no-cut-batch")
                return
            start += 12 + size
            try:
                batch = decode_batch(one)
            except DecodeError:
                if not self.life.has("no-crc"):
                    return
                batch = decode_batch(_with_right_crc(one))
            self.reject(batch.header, size)
            yield from self.shown(batch)

    def reject(self, header: Any, size: int) -> None:
        """End with an error at a batch that the client cannot read."""
        if size > _BYTES_MAX:
            self.life.dies_of("no-large-batch")
        if header.attributes & _APPEND_TIME:
            self.life.dies_of("no-append-time")
        if header.compression != Compression.NONE:
            self.life.dies_of("no-compression")

    def shown(self, batch: Any) -> Iterator[bytes]:
        """The values of a batch that the application gets."""
        header = batch.header
        hidden = header.is_control and not self.life.has("prints-control")
        if header.producer_id in self.aborted and not self.life.has("prints-aborted"):
            hidden = True
        for record in batch.records:
            if not hidden and (record.offset >= self.position or self.life.has("no-skip")):
                yield record.value or b""
        whole = not self.life.has("counts-records")
        self.position = header.last_offset + 1 if whole else self.position + len(batch.records)


def _with_right_crc(data: bytes) -> bytes:
    import crc32c

    changed = bytearray(data)
    struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(changed)
