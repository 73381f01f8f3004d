"""A small consumer on the codec, which keeps the rules or breaks one of them.

    python -m tests.kwire.conformance.client.small_client FAULT BOOTSTRAP TOPIC

It reads partition 0 from the beginning and prints every value. FAULT ``none`` keeps all rules;
every other one is a word that ``is_faulty`` compares.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from kwire.errors import DecodeError
from kwire.frame import frame
from kwire.header import decode_response_header, encode_request_header
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import decode_batch
from kwire.registry import response_type

FAULT: Final = sys.argv[1] if len(sys.argv) > 1 else "none"
#: The versions that the client has.
OWN: Final = {
    ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (1, 12), ApiKey.LIST_OFFSETS: (1, 8),
    ApiKey.FETCH: (4, 12),
}  # fmt: skip
_BACKOFF_S: Final = 0.05


def is_faulty(word: str) -> bool:
    """Whether the client breaks this rule."""
    return word == FAULT


class Lost(Exception):
    """The connection is gone, or cannot be used any more."""


class Node:
    """A connection to one node."""

    def __init__(self, address: tuple[str, int]) -> None:
        try:
            self.socket = socket.create_connection(address, timeout=20)
        except OSError:
            raise Lost from None
        self.throttled_until = 0.0
        self._number = 0
        self.offered = self._ask_versions()

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        version = OWN[ApiKey.API_VERSIONS][1]
        while True:
            asked = ApiVersionsRequest(client_software_name="", client_software_version="")
            if version >= 3:
                asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            data = self._exchange(ApiKey.API_VERSIONS, version, asked)
            if data[4:6] != b"\0\x23":
                break
            if is_faulty("no-fallback"):
                sys.exit(1)
            refusal = ApiVersionsResponse.decode(data[4:], 0)
            version = refusal.api_keys[0].max_version
        answer = ApiVersionsResponse.decode(data[4:], version)
        return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    def version(self, api: ApiKey) -> int:
        """The newest version that both sides have."""
        if is_faulty("own-versions"):
            return OWN[api][1]
        if is_faulty("highest-version"):
            return self.offered[api][1]
        return min(OWN[api][1], self.offered[api][1])

    def call(self, api: ApiKey, request: Message) -> Any:
        """The answer to a request at :meth:`version`."""
        if not is_faulty("no-throttle"):
            time.sleep(max(0.0, self.throttled_until - time.monotonic()))
        version = self.version(api)
        data = self._exchange(api, version, request)
        try:
            header, start = decode_response_header(api, version, data)
            answer: Any = response_type(api).decode(data[start:], version)
        except DecodeError:
            raise Lost from None
        if is_faulty("no-header-tags") and header.unknown_tags:
            sys.exit(1)
        if is_faulty("no-tags") and answer.unknown_tags:
            sys.exit(1)
        self.throttled_until = time.monotonic() + answer.throttle_time_ms / 1000
        return answer

    def _exchange(self, api: ApiKey, version: int, request: Message) -> bytes:
        self._number += 1
        head = encode_request_header(api, version, self._number, "small")
        try:
            self.socket.sendall(frame(head, request.encode(version)))
            [size] = struct.unpack(">i", self._read(4))
            if size < 4:
                if is_faulty("negative-size"):
                    time.sleep(60)
                raise Lost
            data = self._read(size)
        except OSError:
            raise Lost from None
        if data[:4] != self._number.to_bytes(4, "big") and not is_faulty("any-id"):
            raise Lost
        return data

    def _read(self, size: int) -> bytes:
        if is_faulty("recv-is-frame"):
            found = self.socket.recv(size)
            if len(found) != size:
                sys.exit(1)
            return found
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise Lost
            found += piece
        return found


class Consumer:
    """Reads partition 0 of a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.bootstrap, self.topic = (host, int(port)), topic
        self.addresses: dict[int, tuple[str, int]] = {}
        self.nodes: dict[tuple[str, int], Node] = {}
        self.leader, self.epoch, self.position = -1, -1, -1
        self.session, self.session_epoch = 0, 0
        self.aborted: set[int] = set()

    def node(self, address: tuple[str, int]) -> Node:
        """The connection to an address."""
        if address not in self.nodes:
            self.nodes[address] = Node(address)
        return self.nodes[address]

    def run(self) -> None:
        """Read, and begin again with metadata after everything that goes wrong."""
        while True:
            try:
                self.find_leader()
                while self.leader >= 0:
                    self.step()
            except Lost:
                if is_faulty("dies-on-close"):
                    sys.exit(1)
                self.nodes.clear()
                self.session = self.session_epoch = 0
                self.leader = -1
            if not is_faulty("hammers"):
                time.sleep(_BACKOFF_S)

    def find_leader(self) -> None:
        """Ask any node for the leader."""
        error: Exception | None = None
        for address in (*self.addresses.values(), self.bootstrap):
            try:
                answer = self.node(address).call(
                    ApiKey.METADATA,
                    MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]),
                )
                break
            except Lost as lost:
                self.nodes.pop(address, None)
                error = lost
        else:
            assert error is not None
            raise error
        self.addresses = {one.node_id: (one.host, one.port) for one in answer.brokers}
        [topic] = answer.topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_faulty("no-topic"):
            sys.exit(1)
        for partition in topic.partitions:
            if partition.leader_epoch < self.epoch and not is_faulty("any-epoch"):
                continue  # from a node that lags
            self.leader, self.epoch = partition.leader_id, partition.leader_epoch

    def step(self) -> None:
        """One Fetch, after the first offset is known."""
        address = self.addresses[self.leader]
        node = self.node(self.bootstrap if is_faulty("bootstrap-only") else address)
        if self.position < 0:
            self.find_start(node)
            return
        partition = FetchPartition(
            partition=0, fetch_offset=self.position, partition_max_bytes=1 << 20,
            current_leader_epoch=self.epoch if node.version(ApiKey.FETCH) >= 9 else -1,
        )  # fmt: skip
        named = [FetchTopic(topic=self.topic, partitions=[partition])]
        answer = node.call(
            ApiKey.FETCH,
            FetchRequest(
                max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation_level=1,
                session_id=self.session, session_epoch=self.session_epoch,
                topics=named,
            ),
        )  # fmt: skip
        if answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            if not is_faulty("keeps-session"):
                self.session = self.session_epoch = 0
            return
        self.session = answer.session_id
        self.session_epoch = self.session_epoch + 1 if self.session else 0
        for topic in answer.responses:
            for found in topic.partitions:
                self.take(found)

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

    def take(self, partition: Any) -> None:
        """Print the records of an answer, or act on its error."""
        error = partition.error_code
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.position = self.position if is_faulty("repeats") else -1
        elif error and error not in list(ErrorCode) and is_faulty("no-unknown-error"):
            sys.exit(1)
        elif error and not is_faulty("stays"):
            self.leader = -1
        if error:
            return
        self.aborted |= {one.producer_id for one in partition.aborted_transactions or ()}
        for value in self.values(bytes(partition.records or b"")):
            print(value.split(b"\n")[0].decode(errors="replace"), flush=True)
            if is_faulty("prints-twice"):
                print(value.split(b"\n")[0].decode(errors="replace"), flush=True)

    def values(self, data: bytes) -> Iterator[bytes]:
        """The values from the position on, which moves."""
        start = 0
        while start + 12 <= len(data):
            [size] = struct.unpack_from(">i", data, start + 8)
            one = data[start : start + 12 + size]
            if len(one) < 12 + size:
                if is_faulty("no-cut-batch"):
                    sys.exit(1)
                return
            start += 12 + size
            try:
                batch = decode_batch(one)
            except DecodeError:
                if not is_faulty("no-crc"):
                    return
                batch = decode_batch(_with_right_crc(one))
            header = batch.header
            hidden = header.is_control and not is_faulty("prints-control")
            if header.producer_id in self.aborted and not is_faulty("prints-aborted"):
                hidden = True
            for record in batch.records:
                if not hidden and (record.offset >= self.position or is_faulty("no-skip")):
                    yield record.value or b""
            whole = not is_faulty("counts-records")
            self.position = header.last_offset + 1 if whole else self.position + len(batch.records)


def _with_right_crc(data: bytes) -> bytes:
    import crc32c

    changed = bytearray(data)
    struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(changed)


if __name__ == "__main__":
    Consumer(sys.argv[2], sys.argv[3]).run()
