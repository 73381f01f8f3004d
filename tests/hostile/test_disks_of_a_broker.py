"""The disk of one partition of a broker hangs, or is full: producers to it wait or are told, memory
is bounded, everything else goes on.
"""

from __future__ import annotations

import contextlib

from kwire.protocol import ErrorCode
from tests.hostile.failing_server import BEFORE
from tests.hostile.producing import batch, broker, fetched, produced
from tests.waiting import until
from tools import failing_server
from tools.failing_server import full, hanging
from tools.process import memory_mib
from tools.wire_client import WireClient

_BATCH_MIB, _CLIENTS, _ROUNDS, _QUEUED_MIB = 0.9, 8, 40, 4
#: Beside the batches that wait: a copy of each, the frame, and what Python's allocator keeps.
_NOISE_MIB = 48


def test_disk_that_hangs_takes_a_bounded_part_of_the_memory_and_nothing_from_others() -> None:
    large = batch(bytes(int(_BATCH_MIB * (1 << 20))))
    limit = {"queued.max.request.bytes": str(_QUEUED_MIB << 20)}
    with (
        broker("hangs", "other", before=failing_server.BEFORE, properties=limit) as (_, node),
        contextlib.ExitStack() as stack,
    ):
        address, pid = node.broker_address, node.running_process().pid
        clients = [stack.enter_context(WireClient(address)) for _ in range(_CLIENTS)]
        for client in clients:  # the first request of a connection is small
            assert produced(client, "other", batch(b"x")) == 0
        other = stack.enter_context(WireClient(address))
        before = memory_mib(pid)
        with hanging(node, "/hangs-0/"):
            # The one that finds the disk slow is written.
            errors = [produced(clients[0], "hangs", batch(b"second"))]
            for _ in range(_ROUNDS):
                for client in clients:
                    errors.append(produced(client, "hangs", large, timeout_ms=1))
                assert produced(other, "other", batch(b"x")) == 0
            assert errors[0] == 0 and set(errors[1:]) == {ErrorCode.REQUEST_TIMED_OUT}
            assert fetched(other, "hangs") == [b"first", b"second"]
            grown = memory_mib(pid, "VmHWM") - before
        sent = _BATCH_MIB * _CLIENTS * _ROUNDS
        assert grown < _QUEUED_MIB + 4 * _BATCH_MIB * _CLIENTS + _NOISE_MIB < sent / 2
        until(
            lambda: produced(other, "hangs", batch(b"after"), timeout_ms=1000),
            "the partition takes records again",
            lambda error: error == 0,
        )


def test_full_disk_refuses_records_serves_what_it_has_and_takes_records_again() -> None:
    with (
        broker("full", "other", before=BEFORE) as (_, node),
        WireClient(node.broker_address) as client,
    ):
        with full(node, "/full-0/"):
            errors = {produced(client, "full", batch(b"lost")) for _ in range(20)}
            assert errors == {ErrorCode.KAFKA_STORAGE_ERROR}
            assert fetched(client, "full") == [b"first"]
            assert node.output().count('"records refused"') == 1
        assert produced(client, "full", batch(b"second")) == 0
        assert fetched(client, "full") == [b"first", b"second"]
        said = node.output()
        assert said.count('"records taken again"') == 1
        assert "No space left on device; make room" in said
