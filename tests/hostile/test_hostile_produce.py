"""Producers that send batches which are cut off, lie about their sizes, or decompress to much more
than was sent: each has an error, and memory is bounded by what was received.
"""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import crc32c
import pytest

from kwire.protocol import ErrorCode
from kwire.records.header import BATCH_OVERHEAD, CRC_START
from kwire.records.record import Compression
from tests.hostile.producing import (
    PRODUCE_VERSION,
    batch,
    broker,
    fetched,
    produce,
    produced,
)
from tools.bench.data_servers import frame_of
from tools.kafka_files import Node
from tools.process import memory_mib
from tools.wire_client import WireClient

_COUNT_AT, _DELTA_AT, _ATTRIBUTES_AT, _LENGTH_AT = 57, 23, 21, 8
_CLIENTS, _BOMBS = 12, 3
#: Two threads decompress, each up to 32 MiB, which may grow into a copy; and a margin.
_MEMORY_MIB = 2 * 2 * 32 + 64


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with broker("t") as (_, node):
        yield node


def sealed(data: bytearray) -> bytes:
    """The batch with the length and the CRC that it should have."""
    struct.pack_into(">i", data, _LENGTH_AT, len(data) - 12)
    struct.pack_into(">I", data, CRC_START - 4, crc32c.crc32c(memoryview(data)[CRC_START:]))
    return bytes(data)


def bomb(mib: int) -> bytes:
    """A batch of some KiB, the records of which decompress to so many MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    payload = b"".join(packer.compress(bytes(1 << 20)) for _ in range(mib)) + packer.flush()
    data = bytearray(batch(b"x")[:BATCH_OVERHEAD] + payload)
    struct.pack_into(">h", data, _ATTRIBUTES_AT, Compression.GZIP)
    return sealed(data)


def test_compressed_bombs_of_many_clients_are_refused_in_bounded_memory(node: Node) -> None:
    packed, before = bomb(256), memory_mib(node.running_process().pid)
    assert len(packed) < 1 << 19
    done = threading.Event()

    def attack() -> set[int]:
        with WireClient(node.broker_address) as client:
            return {produced(client, "t", packed) for _ in range(_BOMBS)}

    def ordinary() -> int:
        with WireClient(node.broker_address) as client:
            errors = {produced(client, "t", batch(b"y"))}
            while not done.is_set():
                errors.add(produced(client, "t", batch(b"y")))
            return max(errors)

    with ThreadPoolExecutor(_CLIENTS + 1) as pool:
        other = pool.submit(ordinary)
        attacks = [pool.submit(attack) for _ in range(_CLIENTS)]
        found = [one.result() for one in attacks]
        done.set()
        assert other.result() == 0
    assert found == [{ErrorCode.MESSAGE_TOO_LARGE}] * _CLIENTS
    assert memory_mib(node.running_process().pid, "VmHWM") - before < _MEMORY_MIB


@pytest.mark.parametrize("count", [2, 1 << 20, (1 << 31) - 1, -1, 0])
def test_count_of_records_that_is_a_lie_is_refused(node: Node, count: int) -> None:
    data = bytearray(batch(b"x"))
    struct.pack_into(">i", data, _COUNT_AT, count)
    struct.pack_into(">i", data, _DELTA_AT, count - 1 if count > 0 else 0)
    with WireClient(node.broker_address) as client:
        assert produced(client, "t", sealed(data)) == ErrorCode.INVALID_RECORD


def test_batches_that_are_cut_off_or_damaged_leave_the_log_as_it_was(node: Node) -> None:
    rng, good = random.Random(1), batch(*(bytes([n]) * 40 for n in range(50)))
    with WireClient(node.broker_address) as client:
        before = len(fetched(client, "t"))
        for _ in range(300):
            data = bytearray(good)
            if rng.random() < 0.5:
                del data[rng.randrange(len(data)) :]
            else:
                data[rng.randrange(12, len(data))] ^= 1 << rng.randrange(8)
            assert produced(client, "t", bytes(data)) in (
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.INVALID_RECORD,
            )
        assert len(fetched(client, "t")) == before


def test_requests_that_are_cut_off_close_their_connection_alone(node: Node) -> None:
    frame = frame_of(produce("t", batch(b"x")), PRODUCE_VERSION)
    with WireClient(node.broker_address) as other:
        for end in range(9, len(frame) - 4, 3):
            with WireClient(node.broker_address) as client:
                cut = (end).to_bytes(4) + frame[4 : 4 + end]
                client._socket.sendall(cut)
                with contextlib.suppress(ConnectionResetError):
                    assert client._socket.recv(4) == b"", end
        assert produced(other, "t", batch(b"x")) == 0
