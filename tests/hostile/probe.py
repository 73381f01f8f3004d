"""``python -m tests.hostile.probe ID=HOST:PORT=PID ...``: an ordinary client of each node, measured
until standard input ends.

It is a process of its own, so that an attack in the test's process costs the client no time. Each
node has three clients: one asks ApiVersions on a connection that it keeps, one opens a connection
for each question, and one joins a consumer group, commits an offset and leaves. The program prints
``ready`` after each client succeeded once, and at the end one line of JSON: ``{"latencies": {node
id: [s, ...]}, "done": {operation: count}, "failures": [text, ...]}``.

A latency is the wall time of a request less the time for which the kernel kept the client's thread
and the server's main thread waiting for a processor (``/proc/PID/schedstat``), so that a busy
machine is not mistaken for a slow server.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kwire.errors import DecodeError
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group_request import LeaveGroupRequest
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.waiting import PATIENCE_S, until
from tools.wire_client import WireClient

#: The percentiles of ``python -m tools.check waits`` are of thousands of requests.
_PAUSES_S = {
    "ApiVersions": 0.01 if "KWIRE_SPEED" in os.environ else 0.1,
    "connect": 0.1,
    "group": 0.1,
}


class ProbeFailed(Exception):
    """An answer carried an error code."""


class Probe:
    """The clients of one node; ``pid`` is the node's process."""

    def __init__(self, node: str, address: str, pid: int) -> None:
        self.node, self.address, self.pid = node, address, pid
        self.latencies: list[float] = []
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []

    def start(self, stop: threading.Event) -> list[threading.Thread]:
        """Run the three clients until ``stop`` is set."""
        clients = {"ApiVersions": self._kept, "connect": self._connecting, "group": self._group}
        threads = [
            threading.Thread(target=self._run, args=(*client, stop)) for client in clients.items()
        ]
        for thread in threads:
            thread.start()
        return threads

    def all_succeeded(self) -> bool:
        """Whether each client succeeded at least once."""
        return all(self.done[name] for name in _PAUSES_S)

    def _run(self, name: str, client: Callable[[], Iterator[None]], stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                for _ in client():
                    self.done[name] += 1
                    if stop.wait(_PAUSES_S[name]):
                        return
            except (OSError, EOFError, DecodeError, ProbeFailed) as error:
                self.failures.append(f"{name} at node {self.node}: {type(error).__name__}: {error}")
                stop.wait(_PAUSES_S[name])

    def _kept(self) -> Iterator[None]:
        with WireClient(self.address, PATIENCE_S) as client:
            while True:
                began, waited = time.monotonic(), self._waited_s()
                _api_versions(client)
                latency = time.monotonic() - began - (self._waited_s() - waited)
                self.latencies.append(max(0.0, latency))
                yield

    def _connecting(self) -> Iterator[None]:
        while True:
            with WireClient(self.address, PATIENCE_S) as client:
                _api_versions(client)
            yield

    def _group(self) -> Iterator[None]:
        with WireClient(self.address, PATIENCE_S) as client:
            while True:
                _join_and_commit(client, f"bystander-{self.node}")
                yield

    def _waited_s(self) -> float:
        """The time for which the kernel has kept both processes from running so far, s."""
        own = _run_delay_s(Path(f"/proc/self/task/{threading.get_native_id()}/schedstat"))
        return own + _run_delay_s(Path(f"/proc/{self.pid}/schedstat"))


def _run_delay_s(path: Path) -> float:
    try:
        return int(path.read_text().split()[1]) / 1e9
    except FileNotFoundError:  # a kernel without schedstats, or a process that has ended
        return 0.0


def _api_versions(client: WireClient) -> None:
    request = ApiVersionsRequest(client_software_name="bystander", client_software_version="1")
    _succeeded(client.call(request, 3))


def _join_and_commit(client: WireClient, group: str) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    joining = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined: Any = _succeeded(client.call(joining, 3))
    member, generation = joined.member_id, joined.generation_id
    assignment = SyncGroupRequestAssignment(member_id=member, assignment=b"")
    _succeeded(
        client.call(
            SyncGroupRequest(
                group_id=group, generation_id=generation, member_id=member, assignments=[assignment]
            ),
            2,
        )
    )
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="__cluster_metadata", partitions=[partition])
    commit = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=[topic]
    )
    committed: Any = client.call(commit, 7)
    _succeeded(committed.topics[0].partitions[0])
    _succeeded(client.call(LeaveGroupRequest(group_id=group, member_id=member), 2))


def _succeeded(answer: Any) -> Any:
    if answer.error_code:
        raise ProbeFailed(f"{type(answer).__name__} with error {answer.error_code}")
    return answer


def check_groups(address: str) -> None:
    """Join a group at ``address``, commit an offset and leave. Raises OSError, EOFError,
    DecodeError, ProbeFailed.
    """
    with WireClient(address, PATIENCE_S) as client:
        _join_and_commit(client, "bystander-afterwards")


def main(arguments: list[str]) -> None:
    nodes = [argument.split("=") for argument in arguments]
    probes = [Probe(node, address, int(pid)) for node, address, pid in nodes]
    stop = threading.Event()
    threads = [thread for probe in probes for thread in probe.start(stop)]
    until(
        lambda: (
            all(probe.all_succeeded() for probe in probes)
            or any(probe.failures for probe in probes)
        ),
        "each client succeeded once, or one failed",
    )
    print("ready", flush=True)
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    report = {
        "latencies": {probe.node: probe.latencies for probe in probes},
        "done": sum((probe.done for probe in probes), Counter()),
        "failures": [failure for probe in probes for failure in probe.failures],
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
