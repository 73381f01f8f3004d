"""Programs that flood the scripted cluster: their check ends, with a sentence, and keeps little."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kwire.conformance.client import traffic
from kwire.conformance.client.cluster import Cluster
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.program import Command
from kwire.conformance.client.session import ClientSession
from kwire.conformance.client.state import State, fill, known_batch, value_of
from kwire.conformance.outcome import RuleFailed
from kwire.frame import frame
from kwire.header import encode_request_header
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol import ApiKey
from kwire.records import Compression, Record, encode_batch
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    state = State("t")
    fill(state.log, "abcdef")
    with Cluster(state) as running:
        yield running


def connected(cluster: Cluster) -> socket.socket:
    host, _, port = cluster.bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def request(api: ApiKey, version: int, message: Any) -> bytes:
    return frame(encode_request_header(api, version, 9, "hostile"), message.encode(version))


def fails(cluster: Cluster, what: str) -> None:
    error = until(lambda: cluster.broken, "the check ends")
    assert isinstance(error, RuleFailed)
    assert what in str(error)


API_VERSIONS = request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())


def test_endless_requests_end_the_check(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "REQUESTS_MAX", 500)
    with connected(cluster) as client, contextlib.suppress(OSError):
        reader = threading.Thread(target=_drain, args=(client,), daemon=True)
        reader.start()
        while cluster.broken is None:
            client.sendall(100 * API_VERSIONS)
    fails(cluster, "sent more than 500 requests")
    assert len(cluster.traffic.all()) == 500


def _drain(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while client.recv(1 << 16):
            pass


def test_frame_that_never_ends_is_counted_while_it_comes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "BYTES_MAX", 1 << 20)
    with connected(cluster) as client, contextlib.suppress(OSError):
        client.sendall((15 << 20).to_bytes(4, "big"))
        while cluster.broken is None:
            client.sendall(bytes(1 << 16))
    fails(cluster, "exchanged more than 1 MiB with the cluster")


def test_client_that_never_reads_leaves_no_thread(cluster: Cluster) -> None:
    before = threading.active_count()
    with connected(cluster) as client:
        client.settimeout(0.1)
        with contextlib.suppress(OSError):
            for _ in range(100_000):  # until the cluster waits for its answers to be read
                client.sendall(100 * API_VERSIONS)
        assert cluster.traffic.all()
        cluster.close()
        until(lambda: threading.active_count() <= before, "its threads end")


def test_endless_connections_end_the_check(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "LINKS_MAX", 50)
    with contextlib.suppress(OSError):
        while cluster.broken is None:
            connected(cluster).close()
    fails(cluster, "opened more than 50 connections")


def test_connections_that_stay_open_end_the_check(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "OPEN_MAX", 10)
    with contextlib.ExitStack() as stack:
        for _ in range(11):
            stack.enter_context(connected(cluster))
        fails(cluster, "had more than 10 connections open")
        assert len(cluster.traffic.links()) == 10


def test_request_of_many_elements_is_not_decoded(cluster: Cluster) -> None:
    topics = [MetadataRequestTopic(name="") for _ in range(100_000)]
    with connected(cluster) as client:
        client.sendall(request(ApiKey.METADATA, 1, MetadataRequest(topics=topics)))
        assert client.recv(1) == b""
    assert not cluster.traffic.all()


def test_small_batches_of_many_records_end_the_check(cluster: Cluster) -> None:
    records = [Record(offset=number, timestamp=0, value=b"") for number in range(100_000)]
    data = 10 * encode_batch(records, compression=Compression.GZIP)
    partition = PartitionProduceData(index=0, records=data)
    topic = TopicProduceData(name="t", partition_data=[partition])
    produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    with connected(cluster) as client:
        client.sendall(request(ApiKey.PRODUCE, 9, produce))
        fails(cluster, "wrote more than 64 MiB of records")


def printing(count: int, make: Callable[[str], str]) -> ClientProbe:
    """A check whose program has printed the text of ``make(token)`` so many times."""
    command = Command([sys.executable, "-S", "-c", "", "{bootstrap}"])
    probe = ClientProbe(ClientSession(command, PATIENCE_S, ClientProbe, expects_records=True))
    probe.prepare()
    text = make(probe.token)
    probe.session.command = Command(
        [sys.executable, "-S", "-c", f"import sys; sys.stdout.write({text!r} * {count})"]
    )
    probe.start()
    until(lambda: probe.running.status is not None, "the program ends")
    probe.stop()
    return probe


def test_record_that_is_printed_again_and_again_is_judged() -> None:
    """Each of them was compared with all others, which took hours."""
    probe = printing(400_000, lambda token: value_of(token, 0).decode() + "\n")
    try:
        probe.state.log.batches = [known_batch(0, probe.token, records=1)]
        with pytest.raises(RuleFailed, match="1 of 1 records are printed twice"):
            probe.reads_all()
    finally:
        probe.close()
